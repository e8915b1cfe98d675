#include "base/clock.h"

#include <limits.h>

#ifdef CLOCK_BOOTTIME
#define RELOCK_CLOCK CLOCK_BOOTTIME
#else
#define RELOCK_CLOCK CLOCK_MONOTONIC
#endif

#define TEN_YEARS_MS UINT64_C(315360000000)

static inline uint64_t now(clockid_t clock, uint64_t per_s)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return ((uint64_t)ts.tv_sec * per_s) + ((uint64_t)ts.tv_nsec / (1000000000 / per_s));
}

uint64_t relock_clock_now_ms(void)
{
    return now(RELOCK_CLOCK, 1000);
}

uint64_t relock_clock_now_us(void)
{
    return now(RELOCK_CLOCK, 1000000);
}

uint64_t relock_clock_now_ns(void)
{
    return now(CLOCK_MONOTONIC, 1000000000);
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
