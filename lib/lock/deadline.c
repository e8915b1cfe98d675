/*
 * Deadlines of a call that takes a lock.
 *
 * `wait_ms` bounds all of it, whether Redis answers or not. A wait of nothing is a try: Redis is
 * asked once, and the command has its own time.
 */
#include "base/clock.h"
#include "lock/acquire.h"
#include "redis/lane.h"

bool relock_acquire_tries(const struct relock_acquire *acquire)
{
    return acquire->how->wait_ms <= 0;
}

uint64_t relock_acquire_least_ms(const struct relock_acquire *acquire, uint64_t now_ms)
{
    uint64_t least_ms = relock_clock_after(now_ms, RELOCK_LANE_ANSWER_MS);

    return least_ms > acquire->deadline_ms ? least_ms : acquire->deadline_ms;
}

uint64_t relock_acquire_limit_ms(const struct relock_acquire *acquire, uint64_t now_ms)
{
    uint64_t limit_ms = relock_clock_after(now_ms, acquire->client->options.command_timeout_ms);
    uint64_t end_ms = relock_acquire_least_ms(acquire, now_ms);

    return relock_acquire_tries(acquire) || limit_ms < end_ms ? limit_ms : end_ms;
}

/* Whether another owner was known to have the lock during this wait: Redis said so, or it was one
 * here. */
static bool knows(const struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    return acquire->waiter.line->held_ms > acquire->waiter.joined_ms;
}

int relock_acquire_be_late(struct relock_acquire *acquire)
{
    if (knows(acquire))
        return relock_acquire_tries(acquire) ? RELOCK_BUSY : RELOCK_TIMEOUT;
    if (acquire->why[0] == '\0')
        relock_acquire_keep_why(acquire, "no answer in time to another thread that asked");
    return RELOCK_E_CONN;
}

uint64_t relock_acquire_until_ms(const struct relock_acquire *acquire)
{
    if (relock_acquire_tries(acquire) || knows(acquire))
        return acquire->deadline_ms;
    return relock_acquire_least_ms(acquire, acquire->waiter.joined_ms);
}
