/*
 * relock_release_async() - the steps of relock_release(), for an asynchronous call
 *
 *     phase      next     when
 *     BEGINS     BEHIND   another command of the owner runs, or the on_lost of the hold
 *                LEAVES   a level is left
 *                FREES    it was the last one
 *     BEHIND     as BEGINS, when that has ended
 *     each       OVER     with its result
 */
#include "base/clock.h"
#include "lock/async/private.h"
#include "lock/call/call.h"
#include "lock/hold/holds.h"
#include "lock/state/owner.h"

enum phase { BEGINS, BEHIND, LEAVES, FREES, OVER };

struct release_call {
    struct relock_async base; /* first */
    enum phase phase;
    uint64_t owner;
    uint64_t deadline_ms;
    struct relock_hold *hold;
    bool joins; /* the line again; decided once, however often the script is sent */
    struct relock_release_view view;
    struct relock_answer answer;
    char why[RELOCK_WHY_MAX];
    relock_released_fn *fn;
    void *arg;
};

/* As in async_acquire.c. */
#define STEP RELOCK_UNCHECKED static

STEP void finish(struct release_call *call, int r)
{
    call->phase = OVER;
    relock_meter_end(call->base.lock.client->guarded.stats.releases, r);
    relock_async_end(&call->base, r);
}

STEP void send_script(struct release_call *call, struct relock_hold *hold, enum phase phase)
{
    call->hold = hold;
    call->phase = phase;
    call->answer = (struct relock_answer){.why = call->why};
    relock_async_command_begin(&call->base.command, hold, call->deadline_ms);
}

STEP void release(struct release_call *call, struct relock_hold *hold, uint64_t now_us)
{
    struct relock_lock *lock = &call->base.lock;

    if (--hold->count == 0)
        relock_owner_count(call->owner, -1);
    if (hold->state == RELOCK_HOLD_LOST) {
        finish(call, relock_release_lost(lock->client, hold, call->deadline_ms));
    } else if (hold->count > 0) {
        relock_levels_begin(hold, 0);
        send_script(call, hold, LEAVES);
    } else if (!relock_release_begin_last(lock, hold, now_us, &call->view)) {
        finish(call, RELOCK_OK);
    } else {
        call->joins = relock_commands_waits_again(lock->client, hold);
        send_script(call, hold, FREES);
    }
}

/* After the last release on_lost does not run any more. */
static bool is_told(const struct relock_hold *hold)
{
    return hold->notice == RELOCK_HOLD_TELLING && hold->count == 1;
}

STEP void begin(struct release_call *call)
{
    struct relock_lock *lock = &call->base.lock;
    struct relock_hold *hold = relock_resource_find_released(lock->resource, call->owner, 0);
    uint64_t now_us = relock_clock_now_us();
    uint64_t now_ms = now_us / 1000;

    relock_async_sleep(&call->base, RELOCK_NEVER);
    if (!hold) {
        finish(call, RELOCK_NOT_OWNER);
        return;
    }
    if (hold->busy && now_ms >= call->deadline_ms) {
        finish(call, relock_release_late(lock, call->owner, 0, false));
        return;
    }
    if (hold->busy || is_told(hold) || (call->phase == BEGINS && relock_step_is_followed(hold))) {
        call->phase = BEHIND;
        relock_async_follow(&call->base, hold, is_told(hold) ? RELOCK_NEVER : call->deadline_ms);
        return;
    }
    relock_holds_check_time(lock->client, hold, now_ms);
    release(call, hold, now_us);
}

static void step(struct relock_async *base)
{
    struct release_call *call = (struct release_call *)base;

    if (call->phase == BEGINS || call->phase == BEHIND)
        begin(call);
}

STEP void write_script(struct relock_async *base, struct relock_request *request)
{
    const struct release_call *call = (struct release_call *)base;

    relock_request_unlock(request, call->hold, call->hold->count, call->joins);
}

static void sent(struct relock_async *base)
{
    struct release_call *call = (struct release_call *)base;

    if (call->phase == FREES)
        call->view.line = relock_resource_view_line(base->lock.resource);
}

STEP void answered(struct relock_async *base, int result, const struct redisReply *reply)
{
    struct release_call *call = (struct release_call *)base;
    struct relock_lock *lock = &base->lock;
    int r;

    relock_async_fill_answer(base, result, &call->answer);
    relock_commands_read_release(lock->client, call->hold, call->joins, reply, &call->answer);
    if (call->answer.verdict == RELOCK_VERDICT_DONE)
        relock_watchdog_own_change(lock->client, lock->resource);
    r = call->phase == FREES ? relock_release_end_last(lock, call->hold, &call->view, &call->answer)
                             : relock_levels_remove_end(lock, call->hold, &call->answer);
    finish(call, r);
}

STEP void deliver(struct relock_async *base)
{
    struct release_call *call = (struct release_call *)base;
    struct relock_client *client = base->lock.client;

    if (!call->fn)
        return;
    relock_mutex_unlock(&client->mutex);
    call->fn(base->result, call->arg);
    relock_mutex_lock(&client->mutex);
}

static const struct relock_async_ops ops = {
    .step = step,
    .write = write_script,
    .sent = sent,
    .answered = answered,
    .deliver = deliver,
};

int relock_release_async(struct relock_lock *lock, uint64_t owner, struct relock_events *events,
                         relock_released_fn *fn, void *arg)
{
    struct release_call *call;
    int r = relock_async_check(lock, events);

    if (r == RELOCK_OK && owner == 0)
        r = relock_lock_refuse(lock, "relock_release_async: `owner` is 0: pass grant->owner");
    if (r < 0)
        return r;
    call = relock_async_alloc(sizeof(*call));
    if (!call)
        return RELOCK_E_NOMEM;
    call->owner = owner;
    call->deadline_ms = relock_clock_in(lock->client->options.release_timeout_ms);
    call->fn = fn;
    call->arg = arg;
    return relock_async_begin(&call->base, &ops, lock, events);
}
