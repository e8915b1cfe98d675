/*
 * Clock - monotonic time in milliseconds
 *
 * Where the system has such a clock, it also counts while the machine is suspended, as leases do on
 * the server. Deadlines are absolute; RELOCK_NEVER means that there is none.
 *
 * Threads: any.
 */
#ifndef RELOCK_CLOCK_H
#define RELOCK_CLOCK_H

#include <stdint.h>
#include <time.h>

#define RELOCK_NEVER UINT64_MAX

uint64_t relock_clock_now_ms(void);
uint64_t relock_clock_now_us(void); /* of the same clock */
uint64_t relock_clock_now_ns(void);

/* The deadline `ms` after `now_ms`; RELOCK_NEVER if the sum overflows. */
static inline uint64_t relock_clock_after(uint64_t now_ms, uint64_t ms)
{
    return ms < RELOCK_NEVER - now_ms ? now_ms + ms : RELOCK_NEVER;
}

/* The deadline `ms` from now. */
static inline uint64_t relock_clock_in(uint64_t ms)
{
    return relock_clock_after(relock_clock_now_ms(), ms);
}

static inline uint64_t relock_clock_sooner(uint64_t a_ms, uint64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

static inline uint64_t relock_clock_later(uint64_t a_ms, uint64_t b_ms)
{
    return a_ms > b_ms ? a_ms : b_ms;
}

/* The time until the deadline: 0 once it has passed, RELOCK_NEVER for RELOCK_NEVER. */
static inline uint64_t relock_clock_left(uint64_t now_ms, uint64_t deadline_ms)
{
    if (deadline_ms == RELOCK_NEVER)
        return RELOCK_NEVER;
    return deadline_ms > now_ms ? deadline_ms - now_ms : 0;
}

/* That time as a timeout of poll(2), which is -1 for RELOCK_NEVER. */
int relock_clock_poll_ms(uint64_t now_ms, uint64_t deadline_ms);

/* A span as system calls expect it; ten years at most, since some calls reject more. */
struct timespec relock_clock_span(uint64_t ms);

/* ---- backoff --------------------------------------------------------------------------------- */

/*
 * Backoff - the pause before the next retry: random, and growing on average up to a bound
 *
 * Randomness spreads callers that failed at the same moment ("decorrelated jitter").
 *
 * Threads: any; it has no state.
 */

/* Returns a pause from `min_ms` to three times the previous one, at most `max_ms`. `previous_ms` is
 * 0 for the first pause, which counts as `min_ms`. */
uint64_t relock_backoff_ms(uint64_t previous_ms, uint64_t min_ms, uint64_t max_ms);

#endif
