/*
 * Tsan - tells ThreadSanitizer that one thread hands memory to another by an atomic operation
 *
 * A user may build a program with ThreadSanitizer and this library without it. ThreadSanitizer then
 * sees our mutexes and system calls, but not our atomics: without these calls it would report a
 * race for every reply that one thread reads from the socket and another frees. In other programs
 * each call costs a comparison.
 *
 * Threads: any.
 */
#ifndef RELOCK_TSAN_H
#define RELOCK_TSAN_H

/* Call it before the atomic operation that hands over what this thread wrote. */
void relock_tsan_release(void *at);

/* Call it with the same address, after the atomic operation by which this thread takes over. */
void relock_tsan_acquire(void *at);

#endif
