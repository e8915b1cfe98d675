/*
 * Tsan - tells ThreadSanitizer about order that it cannot see
 *
 * A program may be built with ThreadSanitizer while this library is not. ThreadSanitizer then sees
 * our mutexes and system calls, but not our atomics. Without these calls it would report a race for
 * every reply that one thread reads and another frees. The same is true of OpenSSL, which nobody
 * builds with it. In other programs each call costs a comparison.
 *
 * Threads: any.
 */
#ifndef RELOCK_TSAN_H
#define RELOCK_TSAN_H

/* Call this before the atomic operation that publishes memory which this thread wrote. */
void relock_tsan_release(void *at);

/* Call this with the same address after the atomic operation that receives that memory. */
void relock_tsan_acquire(void *at);

/* Between these two calls, ThreadSanitizer reports no access of this thread, but still sees its
 * mutexes. The calls do not nest. */
void relock_tsan_look_away(void);
void relock_tsan_look_again(void);

#endif
