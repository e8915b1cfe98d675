/*
 * Giving up and keeping.
 *
 * A level is given up when the call is made, whatever Redis says or fails to say: the count here
 * is the truth. What Redis could not be told, the I/O thread settles, or the next command of the
 * hold mends.
 */
#include "base/callback.h"
#include "base/clock.h"
#include "lock/holds.h"
#include "lock/lock.h"
#include "lock/losses.h"
#include "lock/options.h"
#include "lock/owner.h"
#include "lock/redlock.h"
#include "lock/request.h"
#include "lock/settle.h"
#include "lock/subscription.h"

#include <assert.h>
#include <stdio.h>

/* What the scripts about a hold return. */
#define ANSWER_DONE 1 /* and more: as many heard that it is free */
#define ANSWER_GONE 0
#define ANSWER_UNANNOUNCED (-2)

/* One command for a hold. */
struct command {
    struct relock_request request;
    int result;
    int64_t answer; /* with RELOCK_OK */
    uint64_t sent_ms;
};

static void run(struct relock_client *client, struct relock_hold *hold, struct command *command,
                uint64_t deadline_ms) RELOCK_REQUIRES(client->mutex)
{
    struct relock_call *call = &command->request.call;

    call->debt = &hold->debt;
    relock_mutex_unlock(&client->mutex);
    command->sent_ms = relock_clock_now_ms();
    command->result = relock_request_run_until(&command->request, client, deadline_ms);
    if (command->result == RELOCK_OK &&
        !relock_request_answer(&command->request, &command->answer)) {
        command->result = RELOCK_E_SERVER;
        (void)snprintf(call->why, sizeof(call->why), "an answer that is none");
    }
    relock_mutex_lock(&client->mutex);
    relock_settle_await(client, hold, call);
    relock_call_end(call);
}

/* Under the mutex, which is given up meanwhile. */
static void log_failure(const struct relock_lock *lock, uint64_t owner, const char *what,
                        int result, const char *why) RELOCK_REQUIRES(lock->client->mutex)
{
    relock_mutex_unlock(&lock->client->mutex);
    relock_lock_log(lock, owner, what, result, why);
    relock_mutex_lock(&lock->client->mutex);
}

/*
 * Runs a command of a hold that goes on; others of the same owner wait meanwhile. The caller has a
 * reference afterwards.
 */
static void run_busy(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                     struct command *command, uint64_t deadline_ms) RELOCK_REQUIRES(client->mutex)
{
    relock_holds_work(hold, lease_ms);
    run(client, hold, command, deadline_ms);
    hold->untold = command->result != RELOCK_OK;
    relock_holds_rest(client, hold);
    if (command->result == RELOCK_OK && command->answer <= ANSWER_GONE && relock_hold_is_held(hold))
        relock_holds_lose(client, hold,
                          command->answer == ANSWER_GONE ? RELOCK_LOST_GONE : RELOCK_LOST_TAKEN,
                          relock_clock_now_ms());
}

/* ---- giving up ----------------------------------------------------------------------------- */

static int release_partly(struct relock_lock *lock, struct relock_hold *hold, uint64_t deadline_ms)
    RELOCK_REQUIRES(lock->client->mutex)
{
    struct command command;
    int r;

    if (hold->ballot)
        return RELOCK_OK; /* its levels are counted here alone */
    relock_request_unlock(&command.request, lock->site, hold->number, hold->count);
    run_busy(lock->client, hold, 0, &command, deadline_ms);
    r = relock_hold_is_held(hold) ? command.result : RELOCK_LOST;
    if (r < 0 && r != RELOCK_LOST)
        log_failure(lock, hold->owner, "one level released, but Redis not told", r,
                    command.request.call.why);
    relock_holds_unref(lock->client, hold);
    return r;
}

/* What Redis said to the last release. */
static int judge_last(const struct command *command)
{
    if (command->result < 0 || command->answer >= ANSWER_DONE ||
        command->answer == ANSWER_UNANNOUNCED)
        return command->result;
    /* Gone, and an attempt before went unanswered: that one did it. */
    return command->request.call.unanswered ? RELOCK_OK : RELOCK_LOST;
}

static void log_last(struct relock_lock *lock, uint64_t owner, const struct command *command, int r)
    RELOCK_REQUIRES(lock->client->mutex)
{
    if (r == RELOCK_LOST)
        log_failure(lock, owner, "released", r, "it was gone from Redis");
    else if (r < 0)
        log_failure(lock, owner, "released, but Redis not told", r, command->request.call.why);
    else if (command->answer == ANSWER_UNANNOUNCED)
        log_failure(lock, 0, "released without being announced: may this user publish?", 0, "");
}

/*
 * Whether who waits here learns of a release that Redis says is announced. Of a fair lock one
 * waiter is told, here or elsewhere, on a channel of its own. Who polls goes on polling: else this
 * process would get the lock each time.
 */
static bool reaches_who_waits(const struct relock_site *site, bool is_heard, int64_t answer)
{
    if (site->kind->is_polled)
        return true;
    return site->kind->is_queued ? answer > ANSWER_DONE : is_heard;
}

/* Who polls does not hear of it, and finds the lock free only if it is left alone for a moment. */
static void let_others_go_first(struct relock_lock *lock, bool is_heard, int64_t answer,
                                uint64_t now_ms) RELOCK_REQUIRES(lock->client->mutex)
{
    if (lock->site->kind->is_polled)
        relock_site_yield(lock->site, 0, now_ms);
    else if (answer > ANSWER_DONE + is_heard)
        relock_site_yield(lock->site, lock->client->options.handoff_ms, now_ms);
}

static int release_last(struct relock_lock *lock, struct relock_hold *hold, uint64_t deadline_ms)
    RELOCK_REQUIRES(lock->client->mutex)
{
    struct relock_site *site = lock->site;
    uint64_t owner = hold->owner;
    bool is_heard = relock_site_listener(site)->subscribed;
    bool is_announced;
    struct command command;
    uint64_t now_ms;
    int r;

    if (hold->ballot) {
        r = relock_redlock_release(lock->client, hold, deadline_ms);
        if (r < 0)
            log_failure(lock, owner, "released", r, "too few servers had it, or answered");
        return r;
    }
    if (relock_holds_pass_on(lock->client, hold, relock_clock_now_ms()))
        return RELOCK_OK;

    relock_holds_leave(lock->client, hold);
    if (is_heard && !site->kind->is_shared)
        site->news = false; /* the announcement is to come */
    relock_request_unlock(&command.request, site, hold->number, 0);
    run(lock->client, hold, &command, deadline_ms);

    r = judge_last(&command);
    now_ms = relock_clock_now_ms();
    is_announced = r == RELOCK_OK && command.answer >= ANSWER_DONE;
    if (is_announced)
        let_others_go_first(lock, is_heard, command.answer, now_ms);
    relock_site_vacate(site, is_announced && reaches_who_waits(site, is_heard, command.answer),
                       now_ms);
    relock_subscription_idle(lock->client, site);
    if (r == RELOCK_LOST)
        lock->client->guarded.stats.lost++;
    if (r == RELOCK_OK || r == RELOCK_LOST)
        relock_holds_end(lock->client, hold);
    else
        relock_holds_settle(lock->client, hold, now_ms);
    log_last(lock, owner, &command, r);
    return r;
}

static int release_lost(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    if (hold->count == 0) {
        (void)relock_holds_ref(hold);
        relock_holds_end_lost(client, hold, relock_clock_now_ms());
        relock_redlock_let_go(client, hold);
        relock_losses_wait(client, hold);
        relock_holds_unref(client, hold);
    }
    return RELOCK_LOST;
}

/* One level less in a callback or at the end of a client, where nobody may ask Redis and wait. */
static int give_up(struct relock_lock *lock, uint64_t owner) RELOCK_REQUIRES(lock->client->mutex)
{
    struct relock_hold *hold = relock_site_find(lock->site, owner);
    uint64_t now_ms = relock_clock_now_ms();

    if (!hold)
        return RELOCK_NOT_OWNER;
    relock_holds_check_time(lock->client, hold, now_ms);
    hold->untold = true;
    if (--hold->count > 0)
        return RELOCK_OK;
    relock_owner_count(owner, -1);
    (void)relock_holds_ref(hold);
    relock_holds_let_go(lock->client, hold, now_ms);
    if (!relock_callback_is_inside())
        relock_losses_wait(lock->client, hold);
    relock_holds_unref(lock->client, hold);
    return RELOCK_OK;
}

RELOCK_UNCHECKED int relock_release_unasked(struct relock_lock *lock, uint64_t owner)
{
    struct relock_visit visit;
    int r;

    r = relock_client_enter(lock->client, false, &visit);
    if (r < 0)
        return r;
    r = give_up(lock, owner);
    relock_client_leave(lock->client, &visit);
    return r;
}

/* Another command of this owner is without an answer: what has to be told comes after that. */
static int give_up_late(struct relock_lock *lock, uint64_t owner)
    RELOCK_REQUIRES(lock->client->mutex)
{
    int r = give_up(lock, owner);

    if (r < 0)
        return r;
    log_failure(lock, owner, "released, but Redis not told", RELOCK_E_CONN,
                "no answer in time to another command of this owner");
    return RELOCK_E_CONN;
}

static int release(struct relock_lock *lock, uint64_t owner, uint64_t deadline_ms)
    RELOCK_REQUIRES(lock->client->mutex)
{
    struct relock_hold *hold;
    bool in_time = true;

    for (;;) {
        hold = relock_site_find(lock->site, owner);
        if (hold && !hold->busy)
            relock_holds_check_time(lock->client, hold, relock_clock_now_ms());
        if (hold && hold->state == RELOCK_HOLD_LOST && !relock_losses_block(lock->client, hold))
            break;
        if (relock_callback_is_inside())
            return RELOCK_E_DEADLOCK;
        if (!hold)
            return RELOCK_NOT_OWNER;
        if (!hold->busy)
            break;
        if (!in_time)
            return give_up_late(lock, owner);
        in_time = relock_cond_wait_until(&lock->client->changed, &lock->client->mutex, deadline_ms);
    }

    if (--hold->count == 0)
        relock_owner_count(owner, -1);
    if (hold->state == RELOCK_HOLD_LOST)
        return release_lost(lock->client, hold);
    return hold->count > 0 ? release_partly(lock, hold, deadline_ms)
                           : release_last(lock, hold, deadline_ms);
}

uint64_t relock_release_limit_ms(const struct relock_lock *lock)
{
    return relock_clock_after(relock_clock_now_ms(), lock->client->options.release_timeout_ms);
}

RELOCK_UNCHECKED int relock_release_by(struct relock_lock *lock, uint64_t owner,
                                       uint64_t deadline_ms)
{
    struct relock_visit visit;
    bool named;
    int r;

    r = relock_client_enter(lock->client, false, &visit);
    if (r < 0)
        return r;
    r = release(lock, relock_owner_resolve(owner, &named), deadline_ms);
    relock_client_leave(lock->client, &visit);
    assert(r <= 0);
    return r;
}

int relock_release(struct relock_lock *lock, uint64_t owner)
{
    if (!lock)
        return RELOCK_E_INVALID;
    if (lock->site->kind->calls)
        return lock->site->kind->calls->release(lock, owner);
    return relock_release_by(lock, owner, relock_release_limit_ms(lock));
}

int relock_unlock(struct relock_lock *lock)
{
    return relock_release(lock, 0);
}

/* ---- keeping ------------------------------------------------------------------------------- */

static int extend(struct relock_lock *lock, uint64_t owner, uint64_t lease_ms, uint64_t deadline_ms)
    RELOCK_REQUIRES(lock->client->mutex)
{
    struct relock_hold *hold;
    struct command command;
    int r;

    while ((hold = relock_site_find(lock->site, owner)) && hold->busy)
        if (!relock_cond_wait_until(&lock->client->changed, &lock->client->mutex, deadline_ms))
            return RELOCK_E_CONN;
    if (!hold)
        return RELOCK_NOT_OWNER;
    relock_holds_check_time(lock->client, hold, relock_clock_now_ms());
    if (hold->state == RELOCK_HOLD_LOST)
        return RELOCK_LOST;

    if (hold->ballot) {
        r = relock_redlock_extend(lock->client, hold, lease_ms, deadline_ms);
        if (r < 0 && r != RELOCK_LOST)
            log_failure(lock, owner, "not extended", r, "too few servers answered in time");
        return r;
    }
    relock_request_extend(&command.request, lock->site, hold->number, hold->count, lease_ms);
    run_busy(lock->client, hold, lease_ms, &command, deadline_ms);
    r = relock_hold_is_held(hold) ? command.result : RELOCK_LOST;
    if (r == RELOCK_OK)
        relock_holds_prolong(lock->client, hold, command.sent_ms, lease_ms);
    else if (r != RELOCK_LOST)
        log_failure(lock, owner, "not extended", r, command.request.call.why);
    relock_holds_unref(lock->client, hold);
    return r;
}

RELOCK_UNCHECKED int relock_extend_by(struct relock_lock *lock, uint64_t owner, uint64_t lease_ms,
                                      uint64_t deadline_ms)
{
    struct relock_visit visit;
    bool named;
    int r;

    r = relock_client_enter(lock->client, true, &visit);
    if (r < 0)
        return r;
    r = extend(lock, relock_owner_resolve(owner, &named), lease_ms, deadline_ms);
    relock_client_leave(lock->client, &visit);
    assert(r <= 0);
    return r;
}

int relock_extend(struct relock_lock *lock, uint64_t owner, uint64_t lease_ms)
{
    uint64_t deadline_ms;

    if (!lock || lease_ms == 0 || lease_ms > RELOCK_TEN_YEARS_MS)
        return RELOCK_E_INVALID;
    if (lock->site->kind->calls)
        return lock->site->kind->calls->extend(lock, owner, lease_ms);
    deadline_ms =
        relock_clock_after(relock_clock_now_ms(), lock->client->options.command_timeout_ms);
    return relock_extend_by(lock, owner, lease_ms, deadline_ms);
}
