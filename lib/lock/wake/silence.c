#include "lock/wake/wake.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/state/resource.h"
#include "redis/io/io.h"

/* In each `command_timeout_ms`. */
#define PINGS 2

static uint64_t ping_after(const struct relock_client *client, uint64_t now_ms)
{
    return relock_clock_after(now_ms, (client->options.command_timeout_ms / PINGS) + 1);
}

/* Pings the server that this wait needs. Returns since when it has been silent. */
static uint64_t ping(struct relock_client *client, const struct relock_waiter *waiter)
{
    struct relock_pipeline *pipeline =
        relock_node_io_pipeline(client->topology, relock_resource_key(waiter->queues_on));

    if (!pipeline)
        return RELOCK_NEVER; /* out of memory */
    relock_pipeline_ping(pipeline);
    return relock_pipeline_silent_ms(pipeline);
}

/*
 * Returns when the next wait ends if Redis stays silent. A wait whose time is over lasts until the
 * next turn: if this thread was held up, the answer has come and was not read.
 */
static uint64_t end_waits(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    uint64_t fired_ms = client->guarded.silence_fired_ms;
    uint64_t next_ms = RELOCK_NEVER;
    struct relock_waiter *at;

    DL_FOREACH2(client->guarded.waiting, at, all_next)
    {
        uint64_t since_ms = relock_clock_later(ping(client, at), at->joined_ms);
        uint64_t end_ms = relock_clock_after(since_ms, client->options.command_timeout_ms);

        if (at->end != RELOCK_WAITER_WAITS)
            continue;
        if (end_ms <= fired_ms)
            relock_resource_end_wait(at, RELOCK_WAITER_UNREACHED, &client->mutex);
        else
            next_ms = relock_clock_sooner(end_ms, next_ms);
    }
    return next_ms;
}

/* Unchecked: the I/O thread calls it with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED static void fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_client *client = RELOCK_CONTAINER(struct relock_client, guarded.silence, timer);
    uint64_t next_ms;

    if (!client->guarded.waiting)
        return;
    next_ms = relock_clock_sooner(end_waits(client), ping_after(client, now_ms));
    client->guarded.silence_fired_ms = now_ms;
    /* Not in this turn again. */
    relock_client_set_timer(client, timer, relock_clock_later(next_ms, now_ms + 1));
}

void relock_silence_init(struct relock_client *client)
{
    relock_timer_init(&client->guarded.silence, fire);
}

void relock_silence_wait_begins(struct relock_client *client, struct relock_waiter *waiter)
{
    client->guarded.stats.waiters++;
    client->guarded.stats.permit_waiters += waiter->queues_on->kind->has_permits;
    client->guarded.n_threadless += waiter->step != NULL;
    if (!waiter->waits_for_server)
        return;
    DL_APPEND2(client->guarded.waiting, waiter, all_prev, all_next);
    if (!relock_timer_is_set(&client->guarded.timers, &client->guarded.silence))
        relock_client_set_timer(client, &client->guarded.silence,
                                ping_after(client, waiter->joined_ms));
}

void relock_silence_wait_ends(struct relock_client *client, struct relock_waiter *waiter)
{
    client->guarded.stats.waiters--;
    client->guarded.stats.permit_waiters -= waiter->queues_on->kind->has_permits;
    client->guarded.n_threadless -= waiter->step != NULL;
    if (waiter->waits_for_server)
        DL_DELETE2(client->guarded.waiting, waiter, all_prev, all_next);
}
