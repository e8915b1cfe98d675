#include "base/tsan.h"

/* ThreadSanitizer's own names; both are NULL in a program without it. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
__attribute__((weak, visibility("default"))) void __tsan_acquire(void *at);
__attribute__((weak, visibility("default"))) void __tsan_release(void *at);
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
