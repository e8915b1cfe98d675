#include "base/futex.h"

#include "base/clock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void relock_futex_wait(atomic_uint *word, unsigned value, uint64_t ms)
{
    const uint64_t ten_years = UINT64_C(315360000000);
    struct timespec ts;

    if (ms > ten_years)
        ms = ten_years;
    ts.tv_sec = (time_t)(ms / 1000);
    ts.tv_nsec = (long)(ms % 1000) * 1000000;
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts);
}

void relock_futex_wake(atomic_uint *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}
