#include "lock/acquire.h"

#include "base/clock.h"
#include "lock/owner.h"
#include "redis/inflight.h"

#include <stdio.h>

/* ---- life ---------------------------------------------------------------------------------- */

static void init_waiter(struct relock_acquire *acquire)
{
    const struct relock_how *how = acquire->how;
    const struct relock_options *options = &acquire->client->options;

    acquire->waiter = (struct relock_waiter){
        .renewed = how->lease_ms == 0,
        .waits_for_server = !acquire->resource->kind->is_composite,
        .tries = how->wait_ms <= 0,
        .on_lost = how->on_lost ? how->on_lost : options->on_lost,
        .arg = how->on_lost ? how->arg : options->arg,
    };
    acquire->waiter.owner = relock_owner_resolve(how->owner, &acquire->waiter.explicit_owner);
    relock_gate_init(&acquire->waiter.gate);
    relock_cancel_watch(&acquire->waiter.cancel_wait, how->cancel, &acquire->waiter.gate);
    relock_cancel_watch(&acquire->stop_wait, acquire->stop, &acquire->waiter.gate);
    if (acquire->stop) { /* the collecting call reports the loss */
        acquire->waiter.of_composite = true;
        acquire->waiter.on_lost = NULL;
        acquire->waiter.arg = NULL;
    }
}

void relock_acquire_init(struct relock_acquire *acquire, struct relock_lock *lock,
                         const struct relock_how *how, struct relock_cancel *stop)
{
    uint64_t now_ms = relock_clock_now_ms();

    acquire->lock = lock;
    acquire->client = lock->client;
    acquire->resource = lock->resource;
    acquire->how = how;
    acquire->stop = stop;
    acquire->lease_ms = how->lease_ms > 0 ? how->lease_ms : lock->resource->lease_ms;
    acquire->deadline_ms = now_ms;
    if (how->wait_ms == RELOCK_FOREVER)
        acquire->deadline_ms = RELOCK_NEVER;
    else if (how->wait_ms > 0)
        acquire->deadline_ms = relock_clock_after(now_ms, (uint64_t)how->wait_ms);
    acquire->write_number = 0;
    acquire->queued = NULL;
    acquire->has_slept = false;
    acquire->contended = false;
    acquire->stop_listening = NULL;
    acquire->pause_ms = RELOCK_POLL_FIRST_MS;
    acquire->hold = NULL;
    acquire->failed_name = NULL;
    acquire->why[0] = '\0';

    init_waiter(acquire);
}

void relock_acquire_deinit(struct relock_acquire *acquire)
{
    relock_cancel_unwatch(&acquire->stop_wait);
    relock_cancel_unwatch(&acquire->waiter.cancel_wait);
}

void relock_acquire_keep_why(struct relock_acquire *acquire, const char *why)
{
    (void)snprintf(acquire->why, sizeof(acquire->why), "%s", why);
}

/* ---- deadlines ----------------------------------------------------------------------------- */

uint64_t relock_acquire_least_ms(const struct relock_acquire *acquire, uint64_t now_ms)
{
    uint64_t least_ms = relock_clock_after(now_ms, RELOCK_ANSWER_MIN_MS);

    return least_ms > acquire->deadline_ms ? least_ms : acquire->deadline_ms;
}

uint64_t relock_acquire_limit_ms(const struct relock_acquire *acquire, uint64_t now_ms)
{
    uint64_t limit_ms = relock_clock_after(now_ms, acquire->client->options.command_timeout_ms);
    uint64_t end_ms = relock_acquire_least_ms(acquire, now_ms);

    return acquire->waiter.tries || limit_ms < end_ms ? limit_ms : end_ms;
}

/* Whether another owner was known to hold the lock during this wait: one of this process, or one
 * that Redis reported. */
static bool knows(const struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    return acquire->waiter.queues_on->held_ms > acquire->waiter.joined_ms;
}

int relock_acquire_be_late(struct relock_acquire *acquire)
{
    if (knows(acquire))
        return acquire->waiter.tries ? RELOCK_BUSY : RELOCK_TIMEOUT;
    if (acquire->why[0] == '\0')
        relock_acquire_keep_why(acquire, "the attempt of another thread got no answer in time");
    return RELOCK_E_CONN;
}

uint64_t relock_acquire_until_ms(const struct relock_acquire *acquire)
{
    if (acquire->waiter.tries || knows(acquire))
        return acquire->deadline_ms;
    return relock_acquire_least_ms(acquire, acquire->waiter.joined_ms);
}
