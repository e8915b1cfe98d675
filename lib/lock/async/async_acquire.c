/*
 * relock_acquire_async() - the steps of relock_take(), for an asynchronous call
 *
 *     phase      next       when
 *     BEGINS     BEHIND     another command of the owner runs, one about the cached hold, or a
 *                           deferred release
 *                QUEUED     the owner has no levels
 *                NESTS      it has
 *     BEHIND     as BEGINS, when that command has ended
 *     QUEUED     ASKS       it is its turn
 *     ASKS       QUEUED     refused
 *     both       ANEW       the owner has acquired the lock by another call
 *     ANEW       as BEGINS, in the next iteration of the I/O thread
 *     each       OVER       with its result
 */
#include "base/clock.h"
#include "base/status.h"
#include "lock/async/private.h"
#include "lock/call/call.h"
#include "lock/hold/holds.h"
#include "lock/state/owner.h"

#include <stdlib.h>

enum phase { BEGINS, BEHIND, ANEW, QUEUED, ASKS, NESTS, OVER };

struct acquire_call {
    struct relock_async base; /* first */
    enum phase phase;
    bool is_watching; /* its cancel */
    struct relock_how how;
    struct relock_acquire acquire;
    uint64_t late_ms;         /* when it is behind another command: until then; or 0 */
    uint64_t releases_ms;     /* when it is behind deferred releases: until then; or 0 */
    uint64_t serial;          /* later holds are none of those */
    struct relock_hold *hold; /* to which the script belongs */
    struct relock_answer answer;
    uint64_t number; /* of the hold that it has acquired; 0: none */
    struct relock_grant grant;
    relock_acquired_fn *fn;
    void *arg;
};

/* The functions of this file are called with the mutex of the client, which clang cannot know to be
 * that of the acquire. */
#define STEP RELOCK_UNCHECKED static

/* ---- its end ------------------------------------------------------------------------------- */

/* Its cancel may be freed from now on. */
STEP void forget(struct relock_async *base)
{
    struct acquire_call *call = (struct acquire_call *)base;

    if (call->is_watching)
        relock_cancel_unwatch(&call->acquire.waiter.cancel_wait);
    call->is_watching = false;
    call->how.cancel = NULL;
}

STEP void finish(struct acquire_call *call, int r)
{
    struct relock_acquire *acquire = &call->acquire;

    if (call->phase != NESTS) {
        relock_take_count(acquire, r);
        call->number = r == RELOCK_OK ? acquire->hold->number : 0;
    }
    call->phase = OVER;
    forget(&call->base);
    relock_take_report(acquire, r, &call->grant);
    relock_async_end(&call->base, r);
}

STEP void leave_queue(struct acquire_call *call, int r)
{
    relock_waiter_leave(&call->acquire, r);
    if (r != RELOCK_AGAIN) {
        finish(call, r);
        return;
    }
    call->phase = ANEW;
    call->late_ms = call->releases_ms = 0;
    relock_step_post(&call->base.step);
}

/* ---- the queue ----------------------------------------------------------------------------- */

STEP void ask(struct acquire_call *call)
{
    struct relock_acquire *acquire = &call->acquire;

    call->hold = relock_ask_begin(acquire, &call->answer);
    if (!call->hold) {
        leave_queue(call, RELOCK_E_NOMEM);
        return;
    }
    call->phase = ASKS;
    relock_async_sleep(&call->base, RELOCK_NEVER);
    relock_async_command_begin(&call->base.command, call->hold,
                               relock_acquire_limit_ms(acquire, call->answer.sent_ms));
}

/* Whether another thread has ended the wait. */
STEP int look_for_end(struct acquire_call *call)
{
    if (call->base.is_unheard && call->acquire.waiter.end != RELOCK_WAITER_GRANTED)
        return RELOCK_CANCELLED;
    return relock_waiter_ended(&call->acquire);
}

STEP void wait_turn(struct acquire_call *call)
{
    uint64_t until_ms;
    int r;

    do {
        switch (relock_waiter_next(&call->acquire, &until_ms, &r)) {
        case RELOCK_WAITER_ENDS:
            leave_queue(call, r);
            return;
        case RELOCK_WAITER_LOOKS:
            break;
        case RELOCK_WAITER_SLEEPS:
            call->phase = QUEUED;
            relock_async_sleep(&call->base, until_ms);
            return;
        case RELOCK_WAITER_ASKS:
            ask(call);
            return;
        }
    } while ((r = look_for_end(call)) == RELOCK_BUSY);
    leave_queue(call, r);
}

STEP void go_on_waiting(struct acquire_call *call)
{
    int r = look_for_end(call);

    if (r == RELOCK_BUSY)
        wait_turn(call);
    else
        leave_queue(call, r);
}

STEP void take_answer(struct acquire_call *call)
{
    struct relock_acquire *acquire = &call->acquire;
    int r = relock_ask_end(acquire, call->hold, &call->answer);

    if (call->answer.verdict == RELOCK_VERDICT_DONE)
        relock_watchdog_own_change(acquire->client, acquire->resource);
    r = relock_waiter_asked(acquire, r);
    if (r == RELOCK_BUSY && !acquire->waiter.tries)
        go_on_waiting(call);
    else
        leave_queue(call, r);
}

/* ---- the beginning ------------------------------------------------------------------------- */

STEP void nest(struct acquire_call *call, struct relock_hold *hold)
{
    int r = relock_levels_add_begin(&call->acquire, hold, &call->answer);

    call->phase = NESTS;
    if (r < 0) {
        finish(call, r);
        return;
    }
    call->hold = hold;
    relock_async_command_begin(&call->base.command, hold,
                               relock_acquire_limit_ms(&call->acquire, call->answer.sent_ms));
}

/* Commands about one hold run one at a time. */
STEP void stay_behind(struct acquire_call *call, struct relock_hold *hold)
{
    uint64_t now_ms = relock_acquire_now_ms(&call->acquire);

    if (call->late_ms == 0)
        call->late_ms = relock_acquire_end_ms(&call->acquire, now_ms);
    call->phase = BEHIND;
    if (now_ms < call->late_ms) {
        relock_async_follow(&call->base, hold, call->late_ms);
        return;
    }
    relock_acquire_keep_why(&call->acquire, RELOCK_WHY_BUSY);
    finish(call, RELOCK_E_CONN);
}

/* As await_releases() of a blocking call. Returns false if the call can go on. */
STEP bool is_behind_release(struct acquire_call *call)
{
    struct relock_acquire *acquire = &call->acquire;
    struct relock_hold *hold = relock_defer_first(acquire->resource, call->serial);
    uint64_t now_ms = relock_acquire_now_ms(acquire);

    if (!hold || relock_take_is_stopped(acquire))
        return false;
    if (acquire->awaits_us == 0)
        acquire->awaits_us = acquire->now_us;
    if (call->releases_ms == 0)
        call->releases_ms = relock_acquire_limit_ms(acquire, now_ms);
    if (now_ms < call->releases_ms) {
        call->phase = BEHIND;
        relock_defer_hurry(acquire->client);
        relock_async_follow(&call->base, hold, call->releases_ms);
        return true;
    }
    if (!acquire->waiter.tries && now_ms < acquire->deadline_ms)
        return false;
    relock_acquire_keep_why(acquire, RELOCK_WHY_DEFERRED);
    finish(call, RELOCK_E_CONN);
    return true;
}

STEP void begin(struct acquire_call *call)
{
    struct relock_acquire *acquire = &call->acquire;
    struct relock_hold *hold =
        relock_resource_find_levels(acquire->resource, acquire->waiter.owner);
    int r;

    if (call->phase != BEHIND)
        call->serial = acquire->client->guarded.serial;
    relock_async_sleep(&call->base, RELOCK_NEVER);
    if (call->base.is_unheard) {
        finish(call, RELOCK_CANCELLED);
        return;
    }
    if (hold && (hold->busy || (call->phase == BEGINS && relock_step_is_followed(hold)))) {
        stay_behind(call, hold);
        return;
    }
    if (hold) {
        nest(call, hold);
        return;
    }
    if (is_behind_release(call))
        return;
    r = relock_take_join(acquire);
    if (r == RELOCK_JOINED)
        wait_turn(call);
    else if (r == RELOCK_AGAIN)
        stay_behind(call, relock_resource_cached(acquire->resource));
    else
        finish(call, r);
}

/* ---- what the base calls ------------------------------------------------------------------- */

STEP void step(struct relock_async *base)
{
    struct acquire_call *call = (struct acquire_call *)base;

    relock_acquire_read_clock(&call->acquire);
    switch (call->phase) {
    case BEGINS:
        call->is_watching = call->how.cancel != NULL;
        if (call->is_watching)
            relock_cancel_watch(&call->acquire.waiter.cancel_wait, call->how.cancel, NULL,
                                &call->base.step);
        begin(call);
        break;
    case BEHIND:
    case ANEW:
        begin(call);
        break;
    case QUEUED:
        relock_waiter_woken(&call->acquire);
        go_on_waiting(call);
        break;
    case ASKS:
    case NESTS: /* it looks when there is an answer */
    case OVER:
        break;
    }
}

STEP void write_script(struct relock_async *base, struct relock_request *request)
{
    const struct acquire_call *call = (struct acquire_call *)base;

    relock_commands_write_lock(&call->acquire, call->hold, request);
}

static void sent(struct relock_async *base)
{
    struct acquire_call *call = (struct acquire_call *)base;

    if (call->phase == ASKS)
        call->acquire.sent = relock_resource_view_line(call->acquire.waiter.queues_on);
}

STEP void answered(struct relock_async *base, int result, const struct redisReply *reply)
{
    struct acquire_call *call = (struct acquire_call *)base;
    struct relock_acquire *acquire = &call->acquire;

    relock_async_fill_answer(base, result, &call->answer);
    if (call->phase == ASKS) {
        if (reply)
            relock_commands_read_ask(acquire, call->hold, reply, &call->answer);
        take_answer(call);
        return;
    }
    if (reply)
        relock_commands_read_nest(acquire, reply, &call->answer);
    if (call->answer.verdict == RELOCK_VERDICT_DONE)
        relock_watchdog_own_change(acquire->client, acquire->resource);
    finish(call, relock_levels_add_end(acquire, call->hold, &call->answer));
}

/* The present hold of the owner; NULL if there is none, or the client was freed. */
STEP struct relock_hold *find(const struct acquire_call *call)
{
    const struct relock_lock *lock = &call->base.lock;

    return lock->client->guarded.state == RELOCK_CLIENT_FREED ? NULL
           : lock->resource->kind->has_permits
               ? relock_resource_find_number(lock->resource, call->grant.owner, call->number)
               : relock_resource_find(lock->resource, call->grant.owner);
}

/* The hold may have been renewed since, or lost. */
STEP uint64_t valid_ms(const struct acquire_call *call)
{
    uint64_t now_ms = relock_clock_now_ms();
    const struct relock_hold *hold = find(call);

    return hold && relock_hold_is_certain(hold, now_ms)
               ? relock_clock_left(now_ms, hold->valid_until_ms)
               : 0;
}

/* Its loss may be told from now on. */
STEP void announce(const struct acquire_call *call)
{
    struct relock_hold *hold = call->number != 0 ? find(call) : NULL;

    if (hold && hold->number == call->number)
        hold->unannounced = false;
}

STEP void deliver(struct relock_async *base)
{
    struct acquire_call *call = (struct acquire_call *)base;
    struct relock_client *client = base->lock.client;

    if (base->result == RELOCK_OK)
        call->grant.valid_ms = valid_ms(call);
    relock_mutex_unlock(&client->mutex);
    call->fn(base->result, &call->grant, call->arg);
    relock_mutex_lock(&client->mutex);
    announce(call);
}

STEP void undo(struct relock_async *base)
{
    struct relock_hold *hold = find((struct acquire_call *)base);

    if (hold)
        (void)relock_release_level_of(&base->lock, hold, false);
}

static const struct relock_async_ops ops = {
    .step = step,
    .write = write_script,
    .sent = sent,
    .answered = answered,
    .deliver = deliver,
    .forget = forget,
    .undo = undo,
};

/* ---- the call ------------------------------------------------------------------------------ */

/* The waiter that a thread would be. If the library has made the owner, nobody else acts for it. */
static void init(struct acquire_call *call, struct relock_lock *lock, const struct relock_how *how,
                 struct relock_events *events)
{
    struct relock_waiter *waiter = &call->acquire.waiter;

    call->how = *how;
    if (how->owner == 0)
        call->how.owner = relock_owner_new();
    relock_take_init(&call->acquire, lock, &call->how, NULL, RELOCK_NEVER);
    call->acquire.lock = &call->base.lock;
    waiter->explicit_owner = how->owner != 0;
    waiter->step = &call->base.step;
    waiter->events = events;
}

int relock_acquire_async(struct relock_lock *lock, const struct relock_how *how,
                         struct relock_events *events, relock_acquired_fn *fn, void *arg)
{
    static const struct relock_how one_try;
    struct acquire_call *call;
    int r = relock_async_check(lock, events);

    if (r == RELOCK_OK && lock->client->options.min_replicas > 0)
        r = RELOCK_E_UNSUPPORTED; /* WAIT would hold up the renewals */
    if (r == RELOCK_OK)
        r = fn ? relock_take_check(lock, how)
               : relock_lock_refuse(lock, "relock_acquire_async: `fn` is NULL");
    if (r < 0)
        return r;
    call = relock_async_alloc(sizeof(*call));
    if (!call)
        return RELOCK_E_NOMEM;
    init(call, lock, how ? how : &one_try, events);
    call->fn = fn;
    call->arg = arg;
    if (relock_owner_watch(call->how.owner))
        return relock_async_begin(&call->base, &ops, lock, events);
    free(call);
    return RELOCK_E_NOMEM;
}
