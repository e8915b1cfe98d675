#include "lock/hold/acquire.h"

#include "base/clock.h"
#include "redis/lane/lane.h"

#include <stdio.h>

void relock_acquire_keep_why(struct relock_acquire *acquire, const char *why)
{
    (void)snprintf(acquire->why, sizeof(acquire->why), "%s", why);
}

int relock_acquire_refuse(struct relock_acquire *acquire, const char *why)
{
    relock_acquire_keep_why(acquire, why);
    return RELOCK_E_DEADLOCK;
}

uint64_t relock_acquire_end_ms(const struct relock_acquire *acquire, uint64_t now_ms)
{
    return relock_clock_later(relock_clock_after(now_ms, RELOCK_ANSWER_MIN_MS),
                              acquire->waiter.tries ? acquire->give_up_ms : acquire->deadline_ms);
}

uint64_t relock_acquire_within_ms(const struct relock_acquire *acquire, uint64_t now_ms,
                                  uint64_t timeout_ms)
{
    return relock_clock_sooner(relock_clock_after(now_ms, timeout_ms),
                               relock_acquire_end_ms(acquire, now_ms));
}

uint64_t relock_acquire_limit_ms(const struct relock_acquire *acquire, uint64_t now_ms)
{
    return relock_acquire_within_ms(acquire, now_ms, acquire->client->options.command_timeout_ms);
}

/* Whether the lock was known to be held or reserved during this wait: by an owner of this process,
 * or as Redis said. */
static bool knows(const struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    return acquire->waiter.queues_on->held_at > acquire->waiter.joined_at;
}

/* Whether Redis has left attempts without an answer: of this call, or of others in the queue. */
static bool is_silent(const struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t since_ms = acquire->waiter.queues_on->silent_ms;

    return acquire->why[0] != '\0' ||
           (since_ms > 0 &&
            relock_clock_now_ms() >= relock_clock_after(since_ms, RELOCK_ANSWER_MIN_MS));
}

int relock_acquire_be_late(struct relock_acquire *acquire)
{
    if (knows(acquire) || !is_silent(acquire))
        return acquire->waiter.tries ? RELOCK_BUSY : RELOCK_TIMEOUT;
    if (acquire->why[0] == '\0')
        relock_acquire_keep_why(acquire, "the attempt of another thread got no answer in time");
    return RELOCK_E_CONN;
}

uint64_t relock_acquire_until_ms(const struct relock_acquire *acquire)
{
    if (acquire->waiter.tries || knows(acquire))
        return acquire->deadline_ms;
    return relock_acquire_end_ms(acquire, acquire->waiter.joined_ms);
}
