/*
 * The queue of a resource, as one of its waiters sees it. The call unlocks the mutex for each
 * command and each sleep. It decides with the mutex held, on the state of that moment.
 */
#include "lock/call/call.h"

#include "base/clock.h"
#include "base/probe.h"
#include "base/status.h"
#include "lock/hold/holds.h"
#include "lock/state/resource.h"
#include "lock/wake/wake.h"
#include "redis/io/io.h"
#include "redis/lane/lane.h"

#define HALF_MOVED_RECHECK_MS 1000

/* ---- the begin and the end ----------------------------------------------------------------- */

/* Whether it may have to wait for this server. */
static bool waits(const struct relock_acquire *acquire)
{
    return !acquire->waiter.tries && !acquire->resource->kind->is_collection;
}

void relock_waiter_begin(struct relock_acquire *acquire, struct relock_resource *queue)
{
    acquire->joined_us = acquire->now_us;
    acquire->waiter.joined_ms = relock_acquire_now_ms(acquire);
    if (acquire->awaits_us > 0)
        acquire->joined_us = acquire->awaits_us;
    acquire->waiter.joined_at = ++acquire->client->guarded.moment;
    relock_resource_enqueue(queue, &acquire->waiter);
    if (waits(acquire))
        relock_silence_wait_begins(acquire->client, &acquire->waiter);
}

/* Leaves the queue without the lock. */
static void leave_queue(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_resource *queue = acquire->waiter.queues_on;

    /* Without a subscription, waiters that joined after the refusal would miss the release. */
    if (acquire->waiter.tries && acquire->waiter.has_asked &&
        relock_resource_contention(queue)->line.place == 0 && !relock_subscription_is_active(queue))
        relock_resource_signal(queue, false);
    relock_resource_dequeue(queue, &acquire->waiter);
    relock_line_give_up(acquire->client, queue);
    if (acquire->queued) {
        relock_holds_settle(acquire->client, acquire->queued, relock_clock_now_ms());
        acquire->queued = NULL;
    }
}

void relock_waiter_leave(struct relock_acquire *acquire, int result)
{
    struct relock_resource *queue = acquire->waiter.queues_on;

    if (waits(acquire))
        relock_silence_wait_ends(acquire->client, &acquire->waiter);
    relock_deadlock_wait_ends(acquire->client, &acquire->waiter);
    if (result != RELOCK_OK)
        leave_queue(acquire);
    if (acquire->stop_listening)
        acquire->stop_listening(acquire);
    if (result != RELOCK_OK || queue != acquire->resource)
        relock_subscription_idle(acquire->client, queue);
    if (queue != acquire->resource)
        relock_resources_unref(acquire->client, queue);
}

void relock_waiter_watch_cancels(struct relock_acquire *acquire)
{
    if (acquire->how->cancel)
        relock_cancel_watch(&acquire->waiter.cancel_wait, acquire->how->cancel,
                            &acquire->waiter.gate, NULL);
    if (acquire->stop)
        relock_cancel_watch(&acquire->stop_wait, acquire->stop, &acquire->waiter.gate, NULL);
}

void relock_waiter_unwatch_cancels(struct relock_acquire *acquire)
{
    if (acquire->stop)
        relock_cancel_unwatch(&acquire->stop_wait);
    if (acquire->how->cancel)
        relock_cancel_unwatch(&acquire->waiter.cancel_wait);
}

/* ---- the turn ------------------------------------------------------------------------------ */

int relock_waiter_ended(struct relock_acquire *acquire)
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
    case RELOCK_WAITER_REFUSED: /* chain.c has kept the reason */
        return RELOCK_E_DEADLOCK;
    case RELOCK_WAITER_WAITS:
        break;
    }
    if (acquire->resource->kind->check_other_side) /* the holder ahead may be this owner */
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
    return now_ms < relock_resource_yields_until(acquire->waiter.queues_on) &&
           now_ms < acquire->deadline_ms;
}

/* Whether the waiter, which would ask now, leaves the lock to those of other libraries. If nobody
 * here has wanted the lock lately, they had their chance. */
static bool leaves_room(const struct relock_acquire *acquire, uint64_t now_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_resource *queue = acquire->waiter.queues_on;
    uint64_t asked_ms = relock_resource_contention(queue)->asked_ms;

    return now_ms < acquire->deadline_ms &&
           (acquire->waiter.has_asked || now_ms < asked_ms + RELOCK_ROOM_MS) &&
           relock_room_begin(acquire->client, queue, now_ms);
}

/* The interval between two attempts of the head: it polls if not every release is published or
 * reported. Those who are before this client in the line do so, too. */
static uint64_t recheck_after(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    const struct relock_resource *queue = acquire->waiter.queues_on;
    bool is_behind = relock_resource_contention(queue)->line.state == RELOCK_LINE_BEHIND;
    bool is_told = is_behind || relock_vigil_is_on(acquire->resource);

    return acquire->resource->kind->is_polled && !is_told
               ? acquire->pause_ms
               : relock_request_recheck_ms(acquire->resource);
}

/* Clients that are farther behind in the line act on it later. */
static bool has_lease_ended(const struct relock_resource *resource, uint64_t now_ms)
{
    const struct relock_contention *contention = relock_resource_contention(resource);

    return relock_resource_after_lease(contention->lease_end_ms, contention->line.place) <= now_ms;
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
static enum relock_waiter_step plan_sleep(struct relock_acquire *acquire, uint64_t now_ms,
                                          uint64_t *until_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_resource *resource = acquire->waiter.queues_on;
    const struct relock_contention *contention = relock_resource_contention(resource);
    struct relock_stats *stats = &acquire->client->guarded.stats;
    uint64_t yields_until_ms = relock_resource_yields_until(resource);
    bool is_head = resource->queue == &acquire->waiter && !resource->holder;
    uint64_t recheck_ms = RELOCK_NEVER;

    *until_ms = relock_acquire_until_ms(acquire);
    if (is_head)
        recheck_ms = relock_resource_recheck_at(resource, bounded_recheck_after(acquire));
    if (recheck_ms <= now_ms) {
        if (acquire->has_slept && !has_lease_ended(resource, now_ms) && !resource->kind->is_polled)
            stats->rechecks++;
        relock_resource_signal(resource, false);
        return RELOCK_WAITER_LOOKS;
    }
    *until_ms = relock_clock_sooner(*until_ms, recheck_ms);
    if (yields(acquire, now_ms) && relock_resource_may_ask(resource, &acquire->waiter)) {
        yields_until_ms = relock_clock_sooner(yields_until_ms, acquire->deadline_ms);
        *until_ms = relock_clock_sooner(*until_ms, yields_until_ms);
    }
    if (is_head)
        stats->waits++;
    acquire->has_slept = is_head;
    RELOCK_PROBE(wait, resource->name, acquire->waiter.owner, contention->line.place);
    return RELOCK_WAITER_SLEEPS;
}

void relock_waiter_woken(struct relock_acquire *acquire)
{
    struct relock_resource *queue = acquire->waiter.queues_on;

    if (!acquire->has_slept || queue->retry != RELOCK_RETRY_FOR_MESSAGE)
        return;
    acquire->client->guarded.stats.wakes++;
    queue->retry = RELOCK_RETRY_PENDING; /* the waiter may sleep on first, while others go first */
}

/* A head waits for a message, and may read it itself. */
static void sleep_in_queue(struct relock_acquire *acquire, uint64_t until_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_topology *topology = acquire->has_slept ? acquire->client->topology : NULL;

    relock_mutex_unlock(&acquire->client->mutex);
    if (topology)
        relock_node_io_wait(topology, relock_resource_key(acquire->waiter.queues_on),
                            &acquire->waiter.gate, until_ms);
    else
        (void)relock_gate_wait(&acquire->waiter.gate, until_ms);
    relock_mutex_lock(&acquire->client->mutex);
    relock_acquire_read_clock(acquire);
    relock_waiter_woken(acquire);
}

/*
 * Every call asks at least once, however short its time. A fair waiter asks again at its deadline:
 * since its last attempt others may have acquired the lock with a shorter lease. So does a waiter
 * that leaves room: others may not have used that.
 */
static bool has_tried_enough(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    const struct relock_contention *contention =
        relock_resource_contention(acquire->waiter.queues_on);

    if (acquire->resource->kind->is_queued || contention->room.ends_ms > acquire->deadline_ms)
        return contention->asked_ms >= acquire->deadline_ms;
    return acquire->waiter.has_asked;
}

enum relock_waiter_step relock_waiter_next(struct relock_acquire *acquire, uint64_t *until_ms,
                                           int *result)
{
    uint64_t now_ms = relock_acquire_now_ms(acquire);
    bool is_late = now_ms >= relock_acquire_until_ms(acquire);
    bool may_ask = false;

    if (!is_late || !has_tried_enough(acquire)) {
        if (is_late && acquire->resource->kind->is_queued)
            relock_resource_signal(acquire->waiter.queues_on, false);
        may_ask = relock_resource_may_ask(acquire->waiter.queues_on, &acquire->waiter) &&
                  !yields(acquire, now_ms) && !leaves_room(acquire, now_ms);
    }
    if (may_ask)
        return RELOCK_WAITER_ASKS;
    if (is_late)
        *result = relock_acquire_be_late(acquire);
    else if (!relock_resource_contend(acquire->waiter.queues_on))
        *result = RELOCK_E_NOMEM;
    else if (!relock_deadlock_wait_begins(acquire->client, &acquire->waiter, acquire->why))
        *result = RELOCK_E_DEADLOCK;
    else
        return plan_sleep(acquire, now_ms, until_ms);
    return RELOCK_WAITER_ENDS;
}

int relock_waiter_asked(struct relock_acquire *acquire, int result)
{
    if (result == RELOCK_E_CONN && !acquire->waiter.tries &&
        relock_clock_now_ms() >= acquire->deadline_ms)
        return relock_acquire_be_late(acquire);
    return result;
}

int relock_waiter_wait(struct relock_acquire *acquire, relock_waiter_ask_fn *ask)
{
    uint64_t until_ms;
    int r;

    do {
        switch (relock_waiter_next(acquire, &until_ms, &r)) {
        case RELOCK_WAITER_ENDS:
            return r;
        case RELOCK_WAITER_LOOKS:
            break;
        case RELOCK_WAITER_SLEEPS:
            sleep_in_queue(acquire, until_ms);
            break;
        case RELOCK_WAITER_ASKS:
            r = relock_waiter_asked(acquire, ask(acquire));
            if (r != RELOCK_BUSY || acquire->waiter.tries)
                return r;
            break;
        }
    } while ((r = relock_waiter_ended(acquire)) == RELOCK_BUSY);
    return r;
}

/* ---- an attempt ---------------------------------------------------------------------------- */

void relock_waiter_asks(struct relock_acquire *acquire)
{
    struct relock_resource *queue = acquire->waiter.queues_on;

    acquire->asked_us = acquire->now_us;
    if (queue->silent_ms == 0)
        queue->silent_ms = relock_acquire_now_ms(acquire);
    if (queue->queue == &acquire->waiter)
        queue->retry = RELOCK_RETRY_NONE;
    acquire->waiter.has_asked = true;
    relock_resource_doubt(queue);
    acquire->waiter.is_asking = true;
}

void relock_waiter_answered(struct relock_acquire *acquire, const struct relock_answer *answer)
{
    struct relock_resource *queue = acquire->waiter.queues_on;
    bool has_answer = answer->verdict != RELOCK_VERDICT_FAILED;
    bool goes_on = answer->verdict == RELOCK_VERDICT_BUSY && !acquire->waiter.tries;
    struct relock_contention *contention =
        goes_on ? relock_resource_contend(queue) : queue->contention;

    relock_acquire_read_clock(acquire);
    if (contention)
        contention->asked_ms = relock_acquire_now_ms(acquire);
    if (answer->result != RELOCK_E_CONN)
        queue->silent_ms = 0;
    if (has_answer && !queue->kind->is_composite && !queue->kind->is_number)
        relock_meter_add(&acquire->client->guarded.stats.round_trip,
                         acquire->now_us - acquire->asked_us);
    if (has_answer && acquire->waiter.end == RELOCK_WAITER_UNREACHED)
        relock_resource_wait_on(&acquire->waiter);
}

void relock_waiter_failed(struct relock_acquire *acquire, int result)
{
    uint64_t began_ms = acquire->asked_us / 1000;
    uint64_t limit_ms = relock_acquire_limit_ms(acquire, began_ms);
    uint64_t whole_ms = relock_clock_after(began_ms, acquire->client->options.command_timeout_ms);

    relock_resource_signal(acquire->waiter.queues_on, false);
    if (result == RELOCK_E_CONN && relock_clock_after(limit_ms, RELOCK_ANSWER_MIN_MS) >= whole_ms)
        relock_resource_end_unreached(acquire->waiter.queues_on, began_ms);
}
