/*
 * Acquiring a multi lock: one member after the other, in the order of all. One time limit
 * applies to all of them. The watchdog renews the members held so far, also those with a fixed
 * lease; if one is lost before all are held, the call starts over.
 */
#include "group/collect.h"

#include "base/clock.h"
#include "base/status.h"
#include "group/local.h"
#include "group/membership.h"
#include "lock/call/release.h"
#include "lock/call/take.h"
#include "lock/hold/levels.h"
#include "lock/wake/drain.h"

#include <stdio.h>

/* A lease is asked for again once this part of it has passed. */
#define STALE_PART 10

struct taking {
    struct relock_local_call call;
    struct relock_acquire *acquire;
    const struct relock_group *group;
    bool is_vouched; /* the owner has a hold on the client of the call */
    struct relock_grant weakest;
};

/* The limit of a command about a member other than its acquire: the time limit is one for all. */
static uint64_t limit_ms(const struct taking *taking, uint64_t timeout_ms)
{
    return relock_acquire_within_ms(taking->acquire, relock_clock_now_ms(), timeout_ms);
}

static uint64_t owner_of(const struct taking *taking)
{
    return taking->acquire->waiter.owner;
}

/* The member may still be held by levels of its owner: their fixed lease runs from now on. */
static void stop_keeping(const struct taking *taking, struct relock_lock *member)
{
    struct relock_guard guard;

    if (!relock_client_enter(member->client, false, &guard))
        return;
    relock_levels_stop_keeping(member, owner_of(taking));
    relock_client_leave(member->client, &guard);
}

static void release_members(const struct taking *taking, size_t n)
{
    bool asks = true;

    while (n-- > 0) {
        struct relock_lock *member = taking->group->members[n];
        uint64_t until_ms = limit_ms(taking, member->client->options.release_timeout_ms);

        (void)relock_group_release(member, owner_of(taking), until_ms, &asks);
        stop_keeping(taking, member);
    }
}

static int fail(const struct taking *taking, size_t nth, int result, const char *why)
{
    const struct relock_lock *member = taking->group->members[nth];
    char name[RELOCK_LOG_NAME_MAX];

    taking->acquire->failed_name = relock_lock_name(member);
    (void)snprintf(taking->acquire->why, RELOCK_WHY_MAX, "%s: %s",
                   relock_log_name(member->named->name, name), why);
    return result;
}

static int take_member(const struct taking *taking, size_t nth)
{
    struct relock_how how = *taking->acquire->how;
    struct relock_grant grant = {0};
    int r;

    how.owner = owner_of(taking);
    if (how.wait_ms > 0 && how.wait_ms != RELOCK_FOREVER) {
        how.wait_ms =
            (int64_t)relock_clock_left(relock_clock_now_ms(), taking->acquire->deadline_ms);
        if (how.wait_ms == 0)
            how.wait_ms = 1; /* a wait of 0 would be a try, which has more time */
    }
    r = relock_take(taking->group->members[nth], &how, taking->call.stop, taking->is_vouched,
                    taking->acquire->abandon_ms, &grant);
    if (r == RELOCK_BUSY && !taking->acquire->waiter.tries)
        r = RELOCK_TIMEOUT;
    return r == RELOCK_OK ? r : fail(taking, nth, r, "this member was not acquired");
}

/* A fixed lease starts for all members now, and is no longer renewed. */
static int fix_lease(const struct taking *taking, size_t nth)
{
    struct relock_lock *member = taking->group->members[nth];
    uint64_t lease_ms = taking->acquire->how->lease_ms;
    struct relock_grant grant;
    int r = relock_check(member, owner_of(taking), &grant);

    if (r == RELOCK_OK && grant.valid_ms < lease_ms - (lease_ms / STALE_PART))
        r = relock_extend_by(member, owner_of(taking), lease_ms,
                             limit_ms(taking, member->client->options.command_timeout_ms));
    if (r == RELOCK_OK)
        stop_keeping(taking, member);
    return r;
}

static int look_at_member(struct taking *taking, size_t nth)
{
    struct relock_grant grant = {0};
    int r = taking->acquire->how->lease_ms > 0 ? fix_lease(taking, nth) : RELOCK_OK;

    if (r == RELOCK_OK)
        r = relock_check(taking->group->members[nth], owner_of(taking), &grant);
    if (r < 0)
        return r;
    if (nth == 0 || grant.valid_ms < taking->weakest.valid_ms)
        taking->weakest.valid_ms = grant.valid_ms;
    if (nth == 0 || grant.acked_replicas < taking->weakest.acked_replicas)
        taking->weakest.acked_replicas = grant.acked_replicas;
    return RELOCK_OK;
}

/* Returns RELOCK_AGAIN if a member was lost, or released by another thread of the owner, meanwhile.
 */
static int take_members(struct taking *taking)
{
    size_t n = taking->group->n;

    for (size_t i = 0; i < n; i++) {
        int r = take_member(taking, i);

        if (r < 0) {
            release_members(taking, i);
            return r;
        }
    }
    for (size_t i = 0; i < n; i++) {
        int r = look_at_member(taking, i);

        if (r < 0) {
            release_members(taking, n);
            (void)fail(taking, i, r, "this member was lost while the call waited for others");
            return r == RELOCK_LOST || r == RELOCK_NOT_OWNER ? RELOCK_AGAIN : r;
        }
    }
    return RELOCK_OK;
}

static int take_members_in_time(struct taking *taking)
{
    int r;

    do {
        r = take_members(taking);
    } while (r == RELOCK_AGAIN && relock_clock_now_ms() < taking->acquire->deadline_ms);
    if (r == RELOCK_AGAIN)
        r = taking->acquire->waiter.tries ? RELOCK_E_CONN : RELOCK_TIMEOUT;
    return r;
}

/* A member's client looks at its own holds. So the search for one of another client, which takes
 * time if there are many, is for members elsewhere. */
static bool is_vouched(const struct taking *taking) RELOCK_REQUIRES(taking->acquire->client->mutex)
{
    struct relock_client *client = taking->acquire->client;

    for (size_t i = 0; i < taking->group->n; i++)
        if (taking->group->members[i]->client != client)
            return relock_drain_has_hold(client, taking->call.owner);
    return false;
}

void relock_collect(struct relock_acquire *acquire, struct relock_hold *hold,
                    struct relock_answer *answer)
{
    struct taking taking = {.acquire = acquire, .group = relock_group_of(hold->resource)};
    int r = relock_cancel_new(&taking.call.stop);

    if (r == RELOCK_OK) {
        taking.call.owner = owner_of(&taking);
        taking.is_vouched = is_vouched(&taking);
        DL_APPEND(relock_local_of(acquire->client)->calls, &taking.call);
        relock_mutex_unlock(&acquire->client->mutex);
        r = take_members_in_time(&taking);
        relock_mutex_lock(&acquire->client->mutex);
        DL_DELETE(relock_local_of(acquire->client)->calls, &taking.call);
        (void)relock_cancel_free(taking.call.stop);
    }
    answer->verdict = r == RELOCK_OK ? RELOCK_VERDICT_DONE : RELOCK_VERDICT_FAILED;
    answer->result = r;
    answer->valid_until_ms = relock_clock_in(taking.weakest.valid_ms);
    answer->acked_replicas = taking.weakest.acked_replicas;
}
