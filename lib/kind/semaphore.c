/*
 * Semaphores: permits that up to so many owners hold at the same time, in the format of Redisson's
 * RPermitExpirableSemaphore.
 *
 * Each acquire is a hold of its own, of some permits. The ids of these are made of the number of
 * the hold (lock/state/keys.h), so a command that is repeated concerns the same permits. Redis has
 * the number of free permits, and for each permit that is out the time at which it comes back by
 * itself.
 */
#include "kind/semaphore.h"
#include "base/clock.h"
#include "base/decimal.h"
#include "base/status.h"
#include "kind/kinds.h"
#include "lock/call/call.h"
#include "lock/state/keys.h"
#include "lock/state/lock.h"
#include "lock/state/options.h"
#include "lock/state/owner.h"
#include "lock/wake/outbox.h"
#include "redis/deployment/run.h"
#include "redis/server/reply.h"

#include <assert.h>
#include <stdio.h>

static const struct relock_named_failure failures[] = {
    {"unset", RELOCK_E_NO_PERMITS, "call relock_semaphore_init() once before"},
    {"too many", RELOCK_E_INVALID, "the semaphore has fewer permits than that in all"},
    {NULL, RELOCK_OK, NULL},
};

static const struct relock_kind semaphore = {
    .operations = &relock_command_operations,
    .lock = &relock_script_semaphore_lock,
    .unlock = &relock_script_semaphore_unlock,
    .renew = &relock_script_semaphore_renew,
    .renew_many = &relock_script_semaphore_renew_many,
    .extend = &relock_script_semaphore_renew,
    .inspect = &relock_script_semaphore_inspect,
    .force_unlock = &relock_script_semaphore_force_unlock,
    .channel = RELOCK_CHANNEL_SEMAPHORE,
    .message = RELOCK_MESSAGE_PERMIT,
    .field_suffix = "",
    .failures = failures,
    .is_shared = true,
    .has_permits = true,
};

int relock_semaphore_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &semaphore, name, lock);
}

/* ---- the number of permits ----------------------------------------------------------------- */

static bool is_in_range(int64_t n, int64_t least)
{
    return n >= least && n <= (int64_t)RELOCK_SEMAPHORE_MAX;
}

bool relock_semaphore_reply(const struct redisReply *reply, struct relock_permits *permits,
                            int64_t *done)
{
    int64_t n_free, n_out;

    if (!relock_reply_integer(relock_reply_at(reply, 0), &n_free) ||
        !relock_reply_integer(relock_reply_at(reply, 1), &n_out) ||
        !relock_reply_integer(relock_reply_at(reply, 2), done) ||
        !is_in_range(n_free, -(int64_t)RELOCK_SEMAPHORE_MAX) || !is_in_range(n_out, 0))
        return false;
    *permits = (struct relock_permits){.n_free = n_free, .n_out = (uint64_t)n_out};
    return true;
}

/* Runs the script under no mutex. `*done`: what the script says besides. `*unanswered`: it may have
 * run more than once. */
static int run(struct relock_lock *lock, const char *verb, uint64_t n,
               struct relock_permits *permits, int64_t *done, bool *unanswered)
{
    uint64_t deadline_ms = relock_clock_in(lock->client->options.command_timeout_ms);
    struct relock_request request;
    int r;

    relock_request_permits(&request, lock->resource, &relock_script_semaphore_permits, verb, n);
    r = relock_call_run(&request.call, lock->client->topology, deadline_ms);
    if (r == RELOCK_OK && !relock_semaphore_reply(request.call.reply, permits, done)) {
        r = RELOCK_E_SERVER;
        (void)snprintf(request.call.why, RELOCK_WHY_MAX,
                       "the key has the number of no semaphore, or the reply cannot be read");
    }
    if (r < 0)
        relock_lock_log(lock, relock_owner_self(), "its permits were not read or set", r,
                        request.call.why);
    *unanswered = request.call.unanswered;
    relock_call_end(&request.call);
    return r;
}

static int call(struct relock_lock *lock, const char *verb, uint64_t n,
                struct relock_permits *permits, int64_t *done, bool *unanswered)
{
    struct relock_guard guard;
    int r;

    if (!lock->resource->kind->has_permits)
        return RELOCK_E_UNSUPPORTED;
    if (!relock_client_enter(lock->client, true, &guard))
        return guard.result;
    relock_mutex_unlock(&lock->client->mutex);
    r = run(lock, verb, n, permits, done, unanswered);
    relock_mutex_lock(&lock->client->mutex);
    relock_client_exit(lock->client, &guard);
    assert(r <= 0);
    return r;
}

static int set(struct relock_lock *lock, const char *verb, uint64_t n, bool *was_unset)
{
    struct relock_permits permits = {0};
    int64_t done = 0;
    bool unanswered = false;
    int r;

    if (!lock || n > RELOCK_SEMAPHORE_MAX)
        return relock_lock_refuse(lock, "the number of permits of a semaphore is above 2^31 - 1");
    r = call(lock, verb, n, &permits, &done, &unanswered);
    if (r == RELOCK_OK && was_unset)
        *was_unset = done == 1;
    return r;
}

int relock_semaphore_init(struct relock_lock *lock, uint64_t n, bool *was_unset)
{
    return set(lock, "init", n, was_unset);
}

int relock_semaphore_set(struct relock_lock *lock, uint64_t n)
{
    return set(lock, "set", n, NULL);
}

/* Sets the number again, if it is still the same. So a script that is repeated adds once. Returns
 * RELOCK_AGAIN if it was another one. */
static int add_once(struct relock_lock *lock, int64_t n, uint64_t deadline_ms)
{
    struct relock_permits permits = {0};
    int64_t done = 0, all;
    bool unanswered = false;
    char before[RELOCK_DECIMAL_MAX];
    int r = call(lock, "read", 0, &permits, &done, &unanswered);

    if (r < 0)
        return r;
    if (done < 0)
        return RELOCK_E_NO_PERMITS;
    all = permits.n_free + (int64_t)permits.n_out;
    if (all + n < 0 || all + n > (int64_t)RELOCK_SEMAPHORE_MAX)
        return relock_lock_refuse(lock, "relock_semaphore_add: there would be less than 0 permits, "
                                        "or more than 2^31 - 1");
    (void)relock_decimal(before, (uint64_t)all);
    r = call(lock, before, (uint64_t)(all + n), &permits, &done, &unanswered);
    if (r < 0 || done == 1)
        return r;
    /* An attempt may have added, and its answer was lost. */
    return unanswered || relock_clock_now_ms() >= deadline_ms ? RELOCK_E_CONN : RELOCK_AGAIN;
}

int relock_semaphore_add(struct relock_lock *lock, int64_t n)
{
    uint64_t deadline_ms;
    int r;

    if (!lock || n > (int64_t)RELOCK_SEMAPHORE_MAX || n < -(int64_t)RELOCK_SEMAPHORE_MAX)
        return relock_lock_refuse(lock, "relock_semaphore_add: `n` is above 2^31 - 1");
    deadline_ms = relock_clock_in(lock->client->options.command_timeout_ms);
    do {
        r = add_once(lock, n, deadline_ms);
    } while (r == RELOCK_AGAIN);
    return r;
}

int relock_semaphore_read(struct relock_lock *lock, struct relock_permits *permits)
{
    struct relock_permits found = {0};
    int64_t done = 0;
    bool unanswered = false;
    int r;

    if (!lock || !permits)
        return relock_lock_refuse(lock, "relock_semaphore_read: `permits` is NULL");
    r = call(lock, "read", 0, &found, &done, &unanswered);
    if (r == RELOCK_OK && done < 0)
        r = RELOCK_E_NO_PERMITS;
    if (r == RELOCK_OK)
        *permits = found;
    return r;
}
