/*
 * Queries: those that are answered from memory, those that Redis answers, and relock_force_unlock,
 * which needs no owner.
 */
#include "base/clock.h"
#include "base/status.h"
#include "lock/call/call.h"
#include "lock/hold/holds.h"
#include "lock/state/kind.h"
#include "lock/state/lock.h"
#include "lock/state/owner.h"
#include "lock/wake/outbox.h"
#include "lock/wake/wake.h"
#include "redis/deployment/run.h"
#include "redis/lane/lane.h"
#include "redis/server/reply.h"

#include <assert.h>
#include <string.h>

/* ---- from memory --------------------------------------------------------------------------- */

/* Of a semaphore: all that the owner has, but for what multi locks have. */
static void report_all(struct relock_resource *resource, uint64_t owner, struct relock_grant *grant)
{
    const struct relock_hold *hold;

    grant->permits = grant->hold_count = 0;
    LL_FOREACH(resource->holds, hold)
    {
        if (relock_hold_is_of(hold, owner)) {
            grant->permits += hold->n_permits;
            grant->hold_count++;
        }
    }
}

/* Looks and reports at one moment: a hold that is found uncertain has been lost by then. */
static int check(struct relock_lock *lock, uint64_t owner, uint64_t number,
                 struct relock_grant *grant) RELOCK_REQUIRES(lock->client->mutex)
{
    const struct relock_operations *operations = lock->resource->kind->operations;
    uint64_t checked = 0; /* the number of the hold that the operation has checked */
    uint64_t valid_until_ms = RELOCK_NEVER;
    struct relock_hold *hold;

    while ((hold = relock_resource_find_weakest(lock->resource, owner, number))) {
        uint64_t now_ms = relock_clock_now_ms();

        relock_holds_check_time(lock->client, hold, now_ms);
        if (!operations->check || !relock_hold_is_held(hold) || hold->number == checked) {
            relock_hold_report(hold, now_ms, grant);
            if (lock->resource->kind->has_permits && number == 0)
                report_all(lock->resource, owner, grant);
            if (grant->valid_ms > relock_clock_left(now_ms, valid_until_ms))
                grant->valid_ms = relock_clock_left(now_ms, valid_until_ms);
            return grant->valid_ms > 0 ? RELOCK_OK : RELOCK_LOST;
        }
        checked = hold->number;
        (void)relock_holds_ref(hold);
        valid_until_ms = operations->check(lock->client, hold);
        relock_holds_unref(lock->client, hold); /* another thread may have released it meanwhile */
        if (lock->client->guarded.state == RELOCK_CLIENT_FREED)
            return RELOCK_E_CLOSED; /* the operation may have found nothing but that */
    }
    return RELOCK_NOT_OWNER;
}

int relock_check_by(struct relock_lock *lock, uint64_t owner, uint64_t number,
                    struct relock_grant *grant)
{
    struct relock_grant none;
    struct relock_guard guard;
    int r;

    if (!grant)
        grant = &none;
    *grant = (struct relock_grant){0};
    if (!lock)
        return RELOCK_E_INVALID;
    if (!relock_client_enter(lock->client, false, &guard))
        return guard.result;
    r = check(lock, relock_owner_resolve(owner), number, grant);
    relock_client_exit(lock->client, &guard);
    return r;
}

int relock_check(struct relock_lock *lock, uint64_t owner, struct relock_grant *grant)
{
    return relock_check_by(lock, owner, 0, grant);
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

/* Waits for deferred releases. The servers have the rest of the time limit. */
static void await_releases(struct relock_lock *lock, uint64_t *deadline_ms)
    RELOCK_REQUIRES(lock->client->mutex)
{
    (void)relock_defer_await(lock->client, lock->resource, NULL, *deadline_ms);
    *deadline_ms = relock_clock_later(*deadline_ms, relock_clock_in(RELOCK_ANSWER_MIN_MS));
}

/* One query to the servers, as a complete call on the client. */
static int ask(struct relock_lock *lock, uint64_t owner, struct relock_inspection *inspection)
{
    struct relock_claim claim = {
        .owner = relock_owner_resolve(owner),
        .deadline_ms = relock_clock_in(lock->client->options.command_timeout_ms),
    };
    char why[RELOCK_WHY_MAX] = "";
    struct relock_guard guard;
    const struct relock_hold *hold;
    int r;

    *inspection = (struct relock_inspection){0};
    if (!relock_client_enter(lock->client, true, &guard))
        return guard.result;
    await_releases(lock, &claim.deadline_ms);
    hold = relock_resource_find_any(lock->resource, claim.owner);
    if (hold) {
        claim.number = hold->number;
        claim.count = hold->count;
    }
    relock_mutex_unlock(&lock->client->mutex);
    r = lock->resource->kind->operations->inspect(lock, &claim, inspection, why);
    if (r < 0)
        relock_lock_log(lock, claim.owner, "query failed", r, why);
    relock_mutex_lock(&lock->client->mutex);
    relock_client_exit(lock->client, &guard);
    assert(r <= 0);
    return r;
}

int relock_who_holds(struct relock_lock *lock, struct relock_holder *holder)
{
    struct relock_inspection inspection;
    int r = lock && holder ? ask(lock, 0, &inspection)
                           : relock_lock_refuse(lock, "relock_who_holds: `holder` is NULL");

    if (r == RELOCK_OK)
        *holder = inspection.holder;
    return r;
}

int relock_is_locked(struct relock_lock *lock, bool *locked)
{
    struct relock_inspection inspection;
    int r = lock && locked ? ask(lock, 0, &inspection)
                           : relock_lock_refuse(lock, "relock_is_locked: `locked` is NULL");

    if (r == RELOCK_OK)
        *locked = inspection.is_locked;
    return r;
}

int relock_hold_count_of(struct relock_lock *lock, uint64_t owner, unsigned *count)
{
    struct relock_inspection inspection;
    int r = lock && count ? ask(lock, owner, &inspection)
                          : relock_lock_refuse(lock, "relock_hold_count: `count` is NULL");

    if (r == RELOCK_OK)
        *count = inspection.own_count;
    return r;
}

int relock_hold_count(struct relock_lock *lock, unsigned *count)
{
    return relock_hold_count_of(lock, 0, count);
}

int relock_ttl_ms(struct relock_lock *lock, int64_t *ttl_ms)
{
    struct relock_inspection inspection;
    int r = lock && ttl_ms ? ask(lock, 0, &inspection)
                           : relock_lock_refuse(lock, "relock_ttl_ms: `ttl_ms` is NULL");

    if (r == RELOCK_OK)
        *ttl_ms = inspection.holder.ttl_ms;
    return r;
}

/* ---- by force ------------------------------------------------------------------------------ */

/* Returns RELOCK_AGAIN if it no longer holds the lock. */
static int remove_holder(struct relock_lock *lock, const char *holder, size_t len,
                         uint64_t deadline_ms, bool *held)
{
    struct relock_request request;
    int64_t answer = 0;
    int r;

    if (len >= RELOCK_INSPECTION_ID_MAX) {
        r = RELOCK_E_SERVER;
        relock_lock_log(lock, relock_owner_self(), "not force-unlocked", r,
                        "its key has data of another program");
        return r;
    }
    relock_request_force_unlock(&request, lock->resource, holder, len);
    r = relock_call_run(&request.call, lock->client->topology, deadline_ms);
    if (r < 0)
        relock_lock_log(lock, relock_owner_self(), "not force-unlocked", r, request.call.why);
    else if (!relock_reply_integer(request.call.reply, &answer) || answer == 0)
        r = request.call.unanswered ? RELOCK_OK : RELOCK_AGAIN;
    *held = *held || r == RELOCK_OK;
    relock_call_end(&request.call);
    return r;
}

/* Returns RELOCK_AGAIN if another owner has acquired the lock meanwhile. With RELOCK_OK, `held` is
 * set if this has freed the lock. */
static int force_once(struct relock_lock *lock, uint64_t deadline_ms, bool *held)
{
    struct relock_inspection seen;
    struct relock_request inspected;
    const char *holder; /* its id, which may be longer than struct relock_holder keeps */
    size_t len;
    int r;

    r = relock_commands_inspect(lock, 0, deadline_ms, &inspected, &seen);
    if (r < 0)
        relock_lock_log(lock, relock_owner_self(), "query failed", r, inspected.call.why);
    if (r == RELOCK_OK && seen.is_locked &&
        relock_reply_text(relock_reply_at(inspected.call.reply, 0), &holder, &len))
        r = remove_holder(lock, holder, len, deadline_ms, held);
    relock_call_end(&inspected.call);
    return r;
}

static int force_until(struct relock_lock *lock, uint64_t deadline_ms, bool *held)
{
    int r;

    do {
        r = force_once(lock, deadline_ms, held);
    } while (r == RELOCK_AGAIN && relock_clock_now_ms() < deadline_ms);
    if (r == RELOCK_AGAIN) {
        r = RELOCK_E_CONN;
        relock_lock_log(lock, relock_owner_self(), "not force-unlocked", r,
                        "the holder changed between reading and freeing, each time; try again");
    }
    return r;
}

/* `permit`: the hold of a semaphore; NULL: whoever holds the lock. */
static int force(struct relock_lock *lock, const char *permit, bool *held)
{
    struct relock_guard guard;
    struct relock_hold *cached;
    uint64_t deadline_ms;
    bool was_held = false;
    int r;

    if (!relock_client_enter(lock->client, true, &guard))
        return guard.result;
    deadline_ms = relock_clock_in(lock->client->options.command_timeout_ms);
    await_releases(lock, &deadline_ms);
    cached = relock_resource_cached(lock->resource);
    if (cached) /* nobody holds it */
        relock_cache_release(lock->client, cached, deadline_ms);
    relock_mutex_unlock(&lock->client->mutex);
    if (permit)
        r = remove_holder(lock, permit, strlen(permit), deadline_ms, &was_held);
    else
        r = force_until(lock, deadline_ms, &was_held);
    if (permit && r == RELOCK_AGAIN)
        r = RELOCK_OK;
    relock_mutex_lock(&lock->client->mutex);
    if (was_held)
        relock_echo_release(lock->client, lock->resource);
    relock_client_exit(lock->client, &guard);
    assert(r <= 0);
    if (r == RELOCK_OK)
        *held = was_held;
    return r;
}

int relock_force_unlock_held(struct relock_lock *lock, bool *held)
{
    if (!lock || !held)
        return relock_lock_refuse(lock, "relock_force_unlock_held: `held` is NULL");
    return lock->resource->kind->force_unlock ? force(lock, NULL, held) : RELOCK_E_UNSUPPORTED;
}

int relock_force_unlock_permit(struct relock_lock *lock, const char *id, bool *held)
{
    size_t len = id ? strlen(id) : 0;
    bool was_held = false;
    int r;

    if (!lock || !id || len % 2 != 0 || len > RELOCK_PERMIT_HEX_MAX ||
        strspn(id, "0123456789abcdefABCDEF") != len)
        return relock_lock_refuse(lock, "relock_force_unlock_permit: `id` is NULL, or is not an "
                                        "even number of hex digits, up to 256");
    if (!lock->resource->kind->has_permits)
        return RELOCK_E_UNSUPPORTED;
    r = force(lock, id, &was_held);
    if (r == RELOCK_OK && held)
        *held = was_held;
    return r;
}

int relock_force_unlock(struct relock_lock *lock)
{
    bool held;

    return relock_force_unlock_held(lock, &held);
}
