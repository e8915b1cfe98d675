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

/* ThreadSanitizer's own names; both are NULL in a program without it. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
__attribute__((weak, visibility("default"))) void __tsan_acquire(void *at);
__attribute__((weak, visibility("default"))) void __tsan_release(void *at);
/* NOLINTEND(bugprone-reserved-identifier) */

/* Call it before the atomic operation that hands over what this thread wrote. */
static inline void relock_tsan_release(void *at)
{
    if (__tsan_release)
        __tsan_release(at);
}

/* Call it with the same address, after the atomic operation by which this thread takes over. */
static inline void relock_tsan_acquire(void *at)
{
    if (__tsan_acquire)
        __tsan_acquire(at);
}

#endif
