/*
 * How a wait is ended by another thread: `end` of a waiter, changed by relock_resource_end_wait
 * and, when its own thread goes on waiting, by relock_resource_wait_on.
 *
 *   end         becomes      when
 *   WAITS       GRANTED      a hold is handed off to it: relock_reuse_hand_off (reuse.c)
 *               UNREACHED    Redis is silent: end_waits (silence.c), or an attempt of the head
 *                            got no answer: relock_resource_end_unreached
 *               STARTS_ANEW  another thread has acquired the lock for the same owner: start_anew
 *               REFUSED      it is the victim of a cycle: refuse (proofs.c)
 *   UNREACHED   STARTS_ANEW  the same
 *               WAITS        Redis answers an attempt of its own: take_answer (ask.c)
 *   STARTS_ANEW WAITS        the call begins again: relock_take_join (take.c)
 *
 * A waiter with GRANTED has left the queue, so it keeps that.
 */
#include "lock/state/resource.h"

#include "base/clock.h"
#include "lock/state/task.h"

/*
 * Without a signal, this client asks so much later for each client before it in the line. So when a
 * lease ends, the first asks alone. Even 200 clients with holds of 200 ms get their turn before
 * they would ask.
 */
#define LEASE_STEP_MS 100
#define RECHECK_STEP_MS 250

/* Waiters that poll, or hear releases alone, can compete for so long as if nothing were cached. */
#define REST_MS 1000

/* ---- waiters ------------------------------------------------------------------------------- */

/* Unchecked: the callers of this file hold the mutex, but its functions are not annotated. */
RELOCK_UNCHECKED static void wake(struct relock_waiter *waiter, struct relock_mutex *mutex)
{
    if (waiter->task)
        relock_task_post(waiter->task);
    else
        relock_gate_open_under(&waiter->gate, mutex);
}

void relock_resource_end_wait(struct relock_waiter *waiter, enum relock_waiter_end end,
                              struct relock_mutex *mutex)
{
    waiter->end = end;
    wake(waiter, mutex);
}

void relock_resource_wait_on(struct relock_waiter *waiter)
{
    waiter->end = RELOCK_WAITER_WAITS;
}

/* ---- signals ------------------------------------------------------------------------------- */

static void wake_head(const struct relock_resource *resource)
{
    if (resource->queue)
        wake(resource->queue, resource->mutex);
}

void relock_resource_signal(struct relock_resource *resource, bool is_message)
{
    if (is_message)
        resource->retry = RELOCK_RETRY_FOR_MESSAGE;
    else if (resource->retry == RELOCK_RETRY_NONE)
        resource->retry = RELOCK_RETRY_PENDING;
    if (!resource->holder)
        wake_head(resource);
}

/* The same for all resources of the lock. */
static void signal_all(struct relock_resource *resource)
{
    struct relock_resource *at;

    relock_resource_signal(resource->primary, false);
    DL_FOREACH(resource->primary->secondaries, at)
    relock_resource_signal(at, false);
}

/* ---- the queue ----------------------------------------------------------------------------- */

void relock_resource_enqueue(struct relock_resource *resource, struct relock_waiter *waiter)
{
    bool is_first = resource->queue == NULL;

    waiter->queues_on = resource;
    DL_APPEND(resource->queue, waiter);
    if (waiter->explicit_owner)
        resource->primary->n_explicit_owners++;
    if (is_first && !resource->holder)
        relock_resource_signal(resource, false);
}

void relock_resource_dequeue(struct relock_resource *resource, struct relock_waiter *waiter)
{
    bool was_head = resource->queue == waiter;

    DL_DELETE(resource->queue, waiter);
    if (waiter->explicit_owner)
        resource->primary->n_explicit_owners--;
    if (was_head && !resource->holder)
        wake_head(resource);
}

bool relock_resource_may_ask(const struct relock_resource *resource,
                             const struct relock_waiter *waiter)
{
    if (!waiter->has_asked && (resource->kind->is_shared || waiter->tries))
        return !resource->holder;
    return resource->queue == waiter && !resource->holder && resource->retry != RELOCK_RETRY_NONE;
}

static uint64_t n_before(uint64_t place)
{
    return place > 0 ? place - 1 : 0;
}

uint64_t relock_resource_after_lease(uint64_t lease_end_ms, uint64_t place)
{
    return relock_clock_after(lease_end_ms, LEASE_STEP_MS * n_before(place));
}

uint64_t relock_resource_recheck_at(const struct relock_resource *resource, uint64_t recheck_ms)
{
    uint64_t place = resource->line.place;
    uint64_t n_intervals = resource->n_intervals > 0 ? resource->n_intervals : 1;
    uint64_t pause_ms = recheck_ms * n_intervals + RECHECK_STEP_MS * n_before(place);
    uint64_t at_ms =
        relock_clock_sooner(relock_clock_after(resource->asked_ms, pause_ms),
                            relock_resource_after_lease(resource->lease_end_ms, place));

    return relock_clock_later(at_ms, resource->yields_until_ms);
}

void relock_resource_hear_lease(struct relock_resource *resource, uint64_t lease_end_ms)
{
    if (!resource->queue || resource->queue->is_asking) {
        relock_resource_signal(resource, true);
        return;
    }
    if (lease_end_ms < resource->lease_end_ms)
        wake_head(resource);
    resource->lease_end_ms = lease_end_ms;
}

static void start_anew(const struct relock_resource *resource, uint64_t owner)
{
    struct relock_waiter *at;

    DL_FOREACH(resource->queue, at)
    {
        if (at->owner == owner)
            relock_resource_end_wait(at, RELOCK_WAITER_STARTS_ANEW, resource->mutex);
    }
}

/*
 * Two threads can wait for one owner only if a caller has named it, so mostly there is nothing to
 * do. On the other side of a read/write lock the owner may now go first, or would wait for itself.
 */
static void start_all_anew(const struct relock_resource *resource, uint64_t owner,
                           bool explicit_owner)
{
    const struct relock_resource *primary = resource->primary;
    const struct relock_resource *at;

    if (!explicit_owner && primary->n_explicit_owners == 0)
        return;
    start_anew(primary, owner);
    DL_FOREACH(primary->secondaries, at)
    start_anew(at, owner);
}

void relock_resource_acquired(struct relock_resource *resource, struct relock_waiter *waiter,
                              struct relock_hold *hold)
{
    struct relock_resource *queued_on = waiter->queues_on;

    if (!resource->kind->is_shared) {
        resource->holder = hold;
        relock_resource_learn(resource);
    }
    if (queued_on)
        relock_resource_dequeue(queued_on, waiter);
    resource->lease_end_ms = RELOCK_NEVER;
    start_all_anew(resource, waiter->owner, waiter->explicit_owner);
    /* If one of several that may share it got the lock, the next may get it, too. */
    if (resource->kind->is_shared && queued_on && queued_on->queue)
        relock_resource_signal(resource, false);
}

void relock_resource_yield(struct relock_resource *resource, uint64_t turn_ms, uint64_t now_ms)
{
    if (resource->queue && now_ms - resource->taken_ms >= turn_ms)
        resource->yields_until_ms = now_ms + RELOCK_YIELD_MS;
}

void relock_resource_released(struct relock_resource *resource, bool is_announced, uint64_t now_ms)
{
    /* Waiters for a fair lock ask while it is being released: one may hold it by now. */
    if (resource->holder && !relock_hold_is_held(resource->holder))
        resource->holder = NULL;
    if (!resource->holder)
        relock_resource_doubt(resource);
    resource->asked_ms = now_ms;
    resource->lease_end_ms = RELOCK_NEVER;
    if (!is_announced)
        signal_all(resource);
    wake_head(resource);
}

void relock_resource_rest(struct relock_resource *resource, uint64_t now_ms)
{
    resource->rests_until_ms = now_ms + REST_MS;
}

void relock_resource_end_unreached(struct relock_resource *resource, uint64_t since_ms)
{
    struct relock_waiter *at;

    DL_FOREACH(resource->queue, at)
    {
        if (at->joined_ms <= since_ms && at->end == RELOCK_WAITER_WAITS)
            relock_resource_end_wait(at, RELOCK_WAITER_UNREACHED, resource->mutex);
    }
}

static void wake_queue(const struct relock_resource *resource)
{
    struct relock_waiter *at;

    DL_FOREACH(resource->queue, at)
    wake(at, resource->mutex);
}

void relock_resource_wake_all(struct relock_resource *resource)
{
    const struct relock_resource *at;

    wake_queue(resource->primary);
    DL_FOREACH(resource->primary->secondaries, at)
    wake_queue(at);
}
