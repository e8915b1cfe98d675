#include "base/thread.h"

/* ThreadSanitizer's own names; all are NULL in a program without it. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
__attribute__((weak, visibility("default"))) void __tsan_acquire(void *at);
__attribute__((weak, visibility("default"))) void __tsan_release(void *at);
__attribute__((weak, visibility("default"))) void __tsan_ignore_thread_begin(void);
__attribute__((weak, visibility("default"))) void __tsan_ignore_thread_end(void);
/* NOLINTEND(bugprone-reserved-identifier) */

void relock_tsan_release(void *at)
{
    if (__tsan_release)
        __tsan_release(at);
}

void relock_tsan_acquire(void *at)
{
    if (__tsan_acquire)
        __tsan_acquire(at);
}

void relock_tsan_look_away(void)
{
    if (__tsan_ignore_thread_begin && __tsan_ignore_thread_end)
        __tsan_ignore_thread_begin();
}

void relock_tsan_look_again(void)
{
    if (__tsan_ignore_thread_begin && __tsan_ignore_thread_end)
        __tsan_ignore_thread_end();
}
