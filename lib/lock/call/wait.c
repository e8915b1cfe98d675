/*
 * The queue of a resource, as one of its waiters sees it. The call unlocks the mutex for each
 * command and each sleep. It decides with the mutex held, on the state of that moment.
 */
#include "lock/call/wait.h"

#include "base/clock.h"
#include "base/probe.h"
#include "base/status.h"
#include "lock/call/ask.h"
#include "lock/deadlock/deadlock.h"
#include "lock/wake/drain.h"
#include "lock/wake/request.h"
#include "lock/wake/vigil.h"
#include "redis/io/direct.h"
#include "redis/io/node_io.h"

#define HALF_MOVED_RECHECK_MS 1000

/* Check the owner's other side first: the holder ahead may be this owner. */
int relock_wait_end(struct relock_acquire *acquire)
{
    int r = RELOCK_OK;

    switch (acquire->waiter.end) {
    case RELOCK_WAITER_GRANTED: /* takes precedence over a deadline or cancel at the same moment */
        acquire->hold = acquire->waiter.hold;
        return RELOCK_OK;
    case RELOCK_WAITER_STARTS_ANEW:
        return RELOCK_AGAIN;
    case RELOCK_WAITER_UNREACHED:
        relock_acquire_keep_why(acquire, "Redis was silent for command_timeout_ms");
        return RELOCK_E_CONN;
    case RELOCK_WAITER_REFUSED: /* proofs.c has kept the reason */
        return RELOCK_E_DEADLOCK;
    case RELOCK_WAITER_WAITS:
        break;
    }
    if (acquire->resource->kind->check_other_side)
        r = acquire->resource->kind->check_other_side(acquire);
    if (r < 0)
        return r;
    if (!relock_drain_admits(acquire->client, acquire->waiter.owner, acquire->is_vouched))
        return RELOCK_E_CLOSED;
    if (relock_cancel_is_fired(acquire->stop))
        return RELOCK_E_CLOSED;
    if (relock_cancel_is_fired(acquire->how->cancel) && !acquire->resource->kind->is_collection)
        return RELOCK_CANCELLED; /* the locks of a collection check it themselves */
    return RELOCK_BUSY;
}

/* Whether another process goes first. Try-locks ignore the yield. */
static bool yields(const struct relock_acquire *acquire, uint64_t now_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    return now_ms < acquire->waiter.queues_on->yields_until_ms && now_ms < acquire->deadline_ms;
}

/* The interval between two attempts of the head: it polls if not every release is published or
 * reported. Those who are before this client in the line do so, too. */
static uint64_t recheck_after(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    bool is_behind = acquire->waiter.queues_on->line.state == RELOCK_LINE_BEHIND;
    bool is_told = is_behind || relock_vigil_is_on(acquire->resource);

    return acquire->resource->kind->is_polled && !is_told
               ? acquire->pause_ms
               : relock_request_recheck_ms(acquire->resource);
}

/* Clients that are farther behind in the line act on it later. */
static bool has_lease_ended(const struct relock_resource *resource, uint64_t now_ms)
{
    return relock_resource_after_lease(resource->lease_end_ms, resource->line.place) <= now_ms;
}

/* recheck_after(), but shorter while the slot may be half moved: then messages may not reach the
 * head. */
static uint64_t bounded_recheck_after(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    bool is_half_moved = relock_request_is_half_moved(acquire->resource);

    return relock_clock_sooner(recheck_after(acquire),
                               is_half_moved ? HALF_MOVED_RECHECK_MS : RELOCK_NEVER);
}

/* Plans the sleep until the gate opens, or until the head is to ask again. */
static enum relock_wait_step plan_sleep(struct relock_acquire *acquire, uint64_t now_ms,
                                        uint64_t *until_ms) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_resource *resource = acquire->waiter.queues_on;
    struct relock_stats *stats = &acquire->client->guarded.stats;
    bool is_head = resource->queue == &acquire->waiter && !resource->holder;
    uint64_t recheck_ms = RELOCK_NEVER;

    *until_ms = relock_acquire_until_ms(acquire);
    if (is_head)
        recheck_ms = relock_resource_recheck_at(resource, bounded_recheck_after(acquire));
    if (recheck_ms <= now_ms) {
        if (acquire->has_slept && !has_lease_ended(resource, now_ms) && !resource->kind->is_polled)
            stats->rechecks++;
        relock_resource_signal(resource, false);
        return RELOCK_WAIT_LOOKS;
    }
    *until_ms = relock_clock_sooner(*until_ms, recheck_ms);
    if (yields(acquire, now_ms) && resource->yields_until_ms < *until_ms &&
        relock_resource_may_ask(resource, &acquire->waiter))
        *until_ms = resource->yields_until_ms;
    if (is_head)
        stats->waits++;
    acquire->has_slept = is_head;
    RELOCK_PROBE(wait, resource->name, acquire->waiter.owner, resource->line.place);
    return RELOCK_WAIT_SLEEPS;
}

void relock_wait_woken(struct relock_acquire *acquire)
{
    if (acquire->has_slept && acquire->waiter.queues_on->retry == RELOCK_RETRY_FOR_MESSAGE)
        acquire->client->guarded.stats.wakes++;
}

/* A head waits for a message, and may read it itself. */
static void sleep_in_queue(struct relock_acquire *acquire, uint64_t until_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_pubsub *pubsub =
        acquire->has_slept ? relock_node_io_shared(acquire->client->topology) : NULL;

    relock_mutex_unlock(&acquire->client->mutex);
    if (pubsub)
        relock_direct_wait(pubsub, &acquire->waiter.gate, until_ms);
    else
        (void)relock_gate_wait(&acquire->waiter.gate, until_ms);
    relock_mutex_lock(&acquire->client->mutex);
    relock_wait_woken(acquire);
}

/*
 * Every call asks at least once, however short its time. A fair waiter asks again at its deadline:
 * since its last attempt others may have acquired the lock with a shorter lease.
 */
static bool has_tried_enough(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    if (acquire->resource->kind->is_queued)
        return acquire->waiter.queues_on->asked_ms >= acquire->deadline_ms;
    return acquire->waiter.has_asked;
}

enum relock_wait_step relock_wait_next(struct relock_acquire *acquire, uint64_t *until_ms,
                                       int *result)
{
    uint64_t now_ms = relock_clock_now_ms();
    bool is_late = now_ms >= relock_acquire_until_ms(acquire);
    bool may_ask = false;

    if (!is_late || !has_tried_enough(acquire)) {
        if (is_late && acquire->resource->kind->is_queued)
            relock_resource_signal(acquire->waiter.queues_on, false);
        may_ask = relock_resource_may_ask(acquire->waiter.queues_on, &acquire->waiter) &&
                  !yields(acquire, now_ms);
    }
    if (may_ask)
        return RELOCK_WAIT_ASKS;
    if (is_late)
        *result = relock_acquire_be_late(acquire);
    else if (!relock_deadlock_enter(acquire))
        *result = RELOCK_E_DEADLOCK;
    else
        return plan_sleep(acquire, now_ms, until_ms);
    return RELOCK_WAIT_ENDS;
}

int relock_wait_asked(struct relock_acquire *acquire, int result)
{
    if (result == RELOCK_E_CONN && !acquire->waiter.tries &&
        relock_clock_now_ms() >= acquire->deadline_ms)
        return relock_acquire_be_late(acquire);
    return result;
}

__attribute__((flatten)) int relock_wait_turn(struct relock_acquire *acquire)
{
    uint64_t until_ms;
    int r;

    do {
        switch (relock_wait_next(acquire, &until_ms, &r)) {
        case RELOCK_WAIT_ENDS:
            return r;
        case RELOCK_WAIT_LOOKS:
            break;
        case RELOCK_WAIT_SLEEPS:
            sleep_in_queue(acquire, until_ms);
            break;
        case RELOCK_WAIT_ASKS:
            r = relock_wait_asked(acquire, relock_ask(acquire));
            if (r != RELOCK_BUSY || acquire->waiter.tries)
                return r;
            break;
        }
    } while ((r = relock_wait_end(acquire)) == RELOCK_BUSY);
    return r;
}
