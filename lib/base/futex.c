#include "base/futex.h"

#include "base/clock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void relock_futex_wait(atomic_uint *word, unsigned value, uint64_t ms)
{
    struct timespec ts = relock_clock_span(ms);

    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts);
}

void relock_futex_wake(atomic_uint *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}
