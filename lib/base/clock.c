#include "base/clock.h"

#include <limits.h>

#ifdef CLOCK_BOOTTIME
#define RELOCK_CLOCK CLOCK_BOOTTIME
#else
#define RELOCK_CLOCK CLOCK_MONOTONIC
#endif

#define TEN_YEARS_MS UINT64_C(315360000000)

static uint64_t now_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return ((uint64_t)ts.tv_sec * 1000000000) + (uint64_t)ts.tv_nsec;
}

uint64_t relock_clock_now_ms(void)
{
    return now_ns(RELOCK_CLOCK) / 1000000;
}

uint64_t relock_clock_now_us(void)
{
    return now_ns(RELOCK_CLOCK) / 1000;
}

uint64_t relock_clock_now_ns(void)
{
    return now_ns(CLOCK_MONOTONIC);
}

int relock_clock_poll_ms(uint64_t now_ms, uint64_t deadline_ms)
{
    uint64_t left = relock_clock_left(now_ms, deadline_ms);

    if (left == RELOCK_NEVER)
        return -1;
    return left < INT_MAX ? (int)left : INT_MAX;
}

struct timespec relock_clock_span(uint64_t ms)
{
    if (ms > TEN_YEARS_MS)
        ms = TEN_YEARS_MS;
    return (struct timespec){
        .tv_sec = (time_t)(ms / 1000),
        .tv_nsec = (long)(ms % 1000) * 1000000,
    };
}
