/*
 * Questions: those answered from memory, those that Redis answers, and the one order that is given
 * without being an owner.
 */
#include "base/clock.h"
#include "base/status.h"
#include "lock/holds.h"
#include "lock/inspection.h"
#include "lock/lock.h"
#include "lock/owner.h"
#include "lock/request.h"
#include "lock/survey.h"
#include "redis/reply.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- from memory --------------------------------------------------------------------------- */

RELOCK_UNCHECKED int relock_check(struct relock_lock *lock, uint64_t owner,
                                  struct relock_grant *grant)
{
    struct relock_grant none;
    struct relock_visit visit;
    struct relock_hold *hold;
    uint64_t now_ms;
    bool named;
    int r;

    if (!grant)
        grant = &none;
    *grant = (struct relock_grant){0};
    if (!lock)
        return RELOCK_E_INVALID;
    if (lock->site->kind->calls)
        return lock->site->kind->calls->check(lock, owner, grant);
    r = relock_client_enter(lock->client, false, &visit);
    if (r < 0)
        return r;
    r = RELOCK_NOT_OWNER;
    hold = relock_site_find(lock->site, relock_owner_resolve(owner, &named));
    if (hold) {
        /* What was said to be lost stays so, whatever a late answer says. */
        now_ms = relock_clock_now_ms();
        relock_holds_check_time(lock->client, hold, now_ms);
        relock_hold_report(hold, now_ms, grant);
        r = relock_hold_is_certain(hold, now_ms) ? RELOCK_OK : RELOCK_LOST;
    }
    relock_client_leave(lock->client, &visit);
    return r;
}

uint64_t relock_valid_ms(struct relock_lock *lock)
{
    struct relock_grant grant;

    (void)relock_check(lock, 0, &grant);
    return grant.valid_ms;
}

bool relock_is_mine(struct relock_lock *lock)
{
    return relock_check(lock, 0, NULL) == RELOCK_OK;
}

/* ---- from Redis ---------------------------------------------------------------------------- */

/* Under no mutex, inside a call. The request is to be ended, whatever came of it. */
static int inspect(struct relock_lock *lock, uint64_t number, struct relock_request *request,
                   struct relock_inspection *inspection)
{
    int r;

    relock_request_inspect(request, lock->site, number);
    r = relock_request_run(request, lock->client);
    if (r == RELOCK_OK && !relock_inspection_read(request->call.reply, inspection)) {
        (void)snprintf(request->call.why, sizeof(request->call.why), "an answer that is none");
        r = RELOCK_E_SERVER;
    }
    if (r < 0)
        relock_lock_log(lock, relock_owner_self(), "not inspected", r, request->call.why);
    return r;
}

static int inspect_one(struct relock_lock *lock, uint64_t number, unsigned count,
                       struct relock_inspection *inspection)
{
    struct relock_request request;
    int r = inspect(lock, number, &request, inspection);

    if (r == RELOCK_OK)
        relock_inspection_count(inspection, lock->site->kind, count);
    relock_call_end(&request.call);
    return r;
}

static int survey(struct relock_lock *lock, unsigned count, struct relock_inspection *inspection)
{
    char why[RELOCK_WHY_MAX];
    int r = relock_survey_run(lock, count, inspection, why);

    if (r < 0)
        relock_lock_log(lock, relock_owner_self(), "not inspected", r, why);
    return r;
}

/* The whole of a question to Redis, entering and leaving included. */
RELOCK_UNCHECKED static int ask(struct relock_lock *lock, struct relock_inspection *inspection)
{
    struct relock_visit visit;
    struct relock_hold *hold;
    uint64_t number;
    unsigned count;
    int r;

    r = relock_client_enter(lock->client, true, &visit);
    if (r < 0)
        return r;
    hold = relock_site_find(lock->site, relock_owner_self());
    number = hold ? hold->number : 0;
    count = hold ? hold->count : 0;
    relock_mutex_unlock(&lock->client->mutex);
    r = lock->site->group ? survey(lock, count, inspection)
                          : inspect_one(lock, number, count, inspection);
    relock_mutex_lock(&lock->client->mutex);
    relock_client_leave(lock->client, &visit);
    assert(r <= 0);
    return r;
}

int relock_who_holds(struct relock_lock *lock, struct relock_holder *holder)
{
    struct relock_inspection inspection;
    int r = lock && holder ? ask(lock, &inspection) : RELOCK_E_INVALID;

    if (r == RELOCK_OK)
        *holder = inspection.holder;
    return r;
}

int relock_is_locked(struct relock_lock *lock, bool *locked)
{
    struct relock_inspection inspection;
    int r = lock && locked ? ask(lock, &inspection) : RELOCK_E_INVALID;

    if (r == RELOCK_OK)
        *locked = inspection.is_locked;
    return r;
}

int relock_hold_count(struct relock_lock *lock, unsigned *count)
{
    struct relock_inspection inspection;
    int r = lock && count ? ask(lock, &inspection) : RELOCK_E_INVALID;

    if (r == RELOCK_OK)
        *count = inspection.own_count;
    return r;
}

int relock_ttl_ms(struct relock_lock *lock, int64_t *ttl_ms)
{
    struct relock_inspection inspection;
    int r = lock && ttl_ms ? ask(lock, &inspection) : RELOCK_E_INVALID;

    if (r == RELOCK_OK)
        *ttl_ms = inspection.holder.ttl_ms;
    return r;
}

/* ---- by force ------------------------------------------------------------------------------ */

/* Returns RELOCK_AGAIN when somebody else had taken the lock meanwhile. */
static int force_once(struct relock_lock *lock)
{
    struct relock_inspection seen;
    struct relock_request inspected;
    struct relock_request request;
    int64_t answer = 0;
    const char *holder; /* all of its id */
    size_t len;
    int r;

    r = inspect(lock, 0, &inspected, &seen);
    if (r == RELOCK_OK && seen.is_locked &&
        relock_reply_text(relock_reply_at(inspected.call.reply, 0), &holder, &len)) {
        relock_request_force_unlock(&request, lock->site, holder, len);
        r = relock_request_run(&request, lock->client);
        if (r < 0)
            relock_lock_log(lock, relock_owner_self(), "not freed by force", r, request.call.why);
        else if (!relock_request_answer(&request, &answer) || answer == 0)
            r = request.call.unanswered ? RELOCK_OK : RELOCK_AGAIN;
        relock_call_end(&request.call);
    }
    relock_call_end(&inspected.call);
    return r;
}

RELOCK_UNCHECKED int relock_force_unlock(struct relock_lock *lock)
{
    struct relock_visit visit;
    uint64_t deadline_ms;
    int r;

    if (!lock)
        return RELOCK_E_INVALID;
    if (lock->site->group)
        return RELOCK_E_UNSUPPORTED;
    r = relock_client_enter(lock->client, true, &visit);
    if (r < 0)
        return r;
    relock_mutex_unlock(&lock->client->mutex);
    deadline_ms =
        relock_clock_after(relock_clock_now_ms(), lock->client->options.command_timeout_ms);
    do {
        r = force_once(lock);
    } while (r == RELOCK_AGAIN && relock_clock_now_ms() < deadline_ms);
    if (r == RELOCK_AGAIN) {
        r = RELOCK_E_CONN;
        relock_lock_log(lock, relock_owner_self(), "not freed by force", r,
                        "it changes hands faster than it can be asked who has it");
    }
    relock_mutex_lock(&lock->client->mutex);
    relock_client_leave(lock->client, &visit);
    assert(r <= 0);
    return r;
}
