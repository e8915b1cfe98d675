/*
 * Taking a multi lock: one member after the other, in the order of all, and then the whole. The
 * time limit is one for all of them. What is had is kept meanwhile, whatever its lease; a member
 * that is lost before all are had is taken anew.
 */
#include "base/clock.h"
#include "base/status.h"
#include "lock/acquire.h"
#include "lock/group.h"
#include "lock/holds.h"
#include "lock/multilock.h"
#include "lock/owner.h"
#include "redis/lane.h"

#include <stdio.h>
#include <stdlib.h>

/* So much of a lease may have gone by before it is asked for again. */
#define STALE_PART 10

struct taking {
    struct relock_multi call;
    struct relock_lock *lock;
    struct relock_group *group;
    const struct relock_how *how;
    uint64_t owner;
    uint64_t deadline_ms;
    struct relock_part **parts; /* one for each member */
    const struct relock_lock *failed;
    struct relock_grant weakest;
    char why[RELOCK_WHY_MAX];
};

/* ---- members ------------------------------------------------------------------------------- */

/* Until when members are asked for anything but to be taken: the time of the wait is that of all.
 */
static uint64_t limit_ms(const struct taking *taking, uint64_t timeout_ms)
{
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t least_ms = relock_clock_after(now_ms, RELOCK_LANE_ANSWER_MS);
    uint64_t most_ms = relock_clock_after(now_ms, timeout_ms);

    if (taking->how->wait_ms <= 0 || most_ms < taking->deadline_ms)
        return most_ms;
    return least_ms > taking->deadline_ms ? least_ms : taking->deadline_ms;
}

/* Without asking once a server could not be reached: the next need not take as long. */
static void give_back(const struct taking *taking, size_t n)
{
    int r = RELOCK_OK;

    while (n-- > 0) {
        struct relock_lock *member = taking->group->members[n];

        if (r != RELOCK_E_CONN)
            r = relock_release_by(member, taking->owner,
                                  limit_ms(taking, member->client->options.release_timeout_ms));
        else
            (void)relock_release_unasked(member, taking->owner);
    }
}

static int fail(struct taking *taking, size_t member, int result, const char *why)
{
    taking->failed = taking->group->members[member];
    (void)snprintf(taking->why, sizeof(taking->why), "%s", why);
    return result;
}

static int take_member(struct taking *taking, size_t nth)
{
    struct relock_how how = *taking->how;
    struct relock_grant grant = {0};
    int r;

    how.owner = taking->owner;
    if (how.wait_ms > 0 && how.wait_ms != RELOCK_FOREVER) {
        how.wait_ms = (int64_t)relock_clock_left(relock_clock_now_ms(), taking->deadline_ms);
        if (how.wait_ms == 0)
            how.wait_ms = 1; /* which is no try: that has time for an answer */
    }
    r = relock_acquire_as(taking->group->members[nth], &how, taking->call.stop, &grant);
    if (r == RELOCK_BUSY && taking->how->wait_ms > 0)
        r = RELOCK_TIMEOUT;
    return r == RELOCK_OK ? r : fail(taking, nth, r, "this member is in the way");
}

/* A fixed lease runs for all members from now on, and is not renewed any more. */
RELOCK_UNCHECKED static int fix_lease(struct taking *taking, size_t nth)
{
    struct relock_lock *member = taking->group->members[nth];
    uint64_t lease_ms = taking->how->lease_ms;
    struct relock_grant grant;
    struct relock_visit visit;
    int r = relock_check(member, taking->owner, &grant);

    if (r == RELOCK_OK && grant.valid_ms < lease_ms - (lease_ms / STALE_PART))
        r = relock_extend_by(member, taking->owner, lease_ms,
                             limit_ms(taking, member->client->options.command_timeout_ms));
    if (r < 0 || relock_client_enter(member->client, false, &visit) < 0)
        return r;
    relock_holds_keep_no_more(member->client, relock_site_find(member->site, taking->owner));
    relock_client_leave(member->client, &visit);
    return RELOCK_OK;
}

static int look_at_member(struct taking *taking, size_t nth)
{
    struct relock_grant grant = {0};
    int r = taking->how->lease_ms > 0 ? fix_lease(taking, nth) : RELOCK_OK;

    if (r == RELOCK_OK)
        r = relock_check(taking->group->members[nth], taking->owner, &grant);
    if (r < 0)
        return r;
    relock_multilock_weaken(&taking->weakest, &grant, nth == 0);
    return RELOCK_OK;
}

/* Returns RELOCK_AGAIN if the owner lost a member, or released it on another thread, meanwhile. */
static int take_members(struct taking *taking)
{
    size_t n = taking->group->n;

    for (size_t i = 0; i < n; i++) {
        int r = take_member(taking, i);

        if (r < 0) {
            give_back(taking, i);
            return r;
        }
    }
    for (size_t i = 0; i < n; i++) {
        int r = look_at_member(taking, i);

        if (r < 0) {
            give_back(taking, n);
            (void)fail(taking, i, r, "lost while other members were waited for");
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
    } while (r == RELOCK_AGAIN && relock_clock_now_ms() < taking->deadline_ms);
    if (r == RELOCK_AGAIN)
        r = taking->how->wait_ms > 0 ? RELOCK_TIMEOUT : RELOCK_E_CONN;
    return r;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int fail_as_lost(struct taking *taking, const struct relock_hold *whole)
{
    return fail(taking, whole->lost_member, RELOCK_LOST, "this member was lost");
}

/* Whether the owner may have a level more. */
static int may_take(struct taking *taking) RELOCK_REQUIRES(taking->lock->client->mutex)
{
    const struct relock_hold *whole = relock_site_find(taking->lock->site, taking->owner);

    if (whole && whole->state == RELOCK_HOLD_LOST)
        return fail_as_lost(taking, whole);
    if (whole && (taking->how->flags & RELOCK_NON_REENTRANT))
        return RELOCK_E_DEADLOCK;
    return taking->lock->client->guarded.shut_down && !whole ? RELOCK_E_CLOSED : RELOCK_OK;
}

/* Returns RELOCK_OK and the hold, with `*is_new` when this is its first level. */
static int enter_whole(struct taking *taking, uint64_t *number, bool *is_new)
    RELOCK_REQUIRES(taking->lock->client->mutex)
{
    const struct relock_options *options = &taking->lock->client->options;
    struct relock_hold *whole = relock_site_find(taking->lock->site, taking->owner);
    bool has_own = taking->how->on_lost != NULL;

    *is_new = !whole;
    if (whole && whole->state == RELOCK_HOLD_LOST)
        return fail_as_lost(taking, whole); /* meanwhile */
    if (whole) {
        whole->count++;
    } else {
        whole = relock_holds_new(taking->lock->client, taking->lock->site, taking->owner);
        if (!whole)
            return RELOCK_E_NOMEM;
        relock_holds_begin_whole(taking->lock->client, whole,
                                 has_own ? taking->how->on_lost : options->on_lost,
                                 has_own ? taking->how->arg : options->arg);
        relock_owner_count(taking->owner, 1);
    }
    *number = whole->number;
    taking->weakest.owner = taking->owner;
    taking->weakest.hold_count = whole->count;
    return RELOCK_OK;
}

/* From now on the whole is lost with each of its members. */
static void join_members(struct taking *taking, uint64_t number)
{
    for (size_t i = 0; i < taking->group->n; i++) {
        struct relock_part *part = taking->parts[i];

        part->group = relock_group_ref(taking->group);
        part->whole = number;
        part->member = i;
        if (relock_group_join(part, taking->owner)) {
            taking->parts[i] = NULL;
            continue;
        }
        relock_group_unref(part->group);
        (void)relock_group_miss(taking->group, number, i, taking->owner);
    }
}

static int take(struct taking *taking) RELOCK_REQUIRES(taking->lock->client->mutex)
{
    uint64_t number;
    bool is_new;
    int r = may_take(taking);

    if (r < 0)
        return r;
    DL_APPEND(taking->lock->client->guarded.multis, &taking->call);
    relock_mutex_unlock(&taking->lock->client->mutex);
    r = take_members_in_time(taking);
    relock_mutex_lock(&taking->lock->client->mutex);
    DL_DELETE(taking->lock->client->guarded.multis, &taking->call);
    if (r < 0)
        return r;
    r = enter_whole(taking, &number, &is_new);
    relock_mutex_unlock(&taking->lock->client->mutex);
    if (r < 0)
        give_back(taking, taking->group->n);
    else if (is_new)
        join_members(taking, number);
    relock_mutex_lock(&taking->lock->client->mutex);
    return r;
}

/* ---- the call ------------------------------------------------------------------------------ */

static void end(struct taking *taking)
{
    for (size_t i = 0; taking->parts && i < taking->group->n; i++)
        free(taking->parts[i]);
    free(taking->parts);
    (void)relock_cancel_free(taking->call.stop);
}

static int begin(struct taking *taking)
{
    taking->parts = calloc(taking->group->n, sizeof(struct relock_part *));
    for (size_t i = 0; taking->parts && i < taking->group->n; i++) {
        taking->parts[i] = calloc(1, sizeof(struct relock_part));
        if (!taking->parts[i])
            return RELOCK_E_NOMEM;
    }
    return taking->parts ? relock_cancel_new(&taking->call.stop) : RELOCK_E_NOMEM;
}

static void report(const struct taking *taking, int result, struct relock_grant *grant)
{
    char why[(2 * RELOCK_WHY_MAX) + RELOCK_LOG_NAME_MAX];
    char name[RELOCK_LOG_NAME_MAX];

    if (result == RELOCK_OK)
        *grant = taking->weakest; /* and no failed member */
    if (result == RELOCK_OK || !taking->failed)
        return;
    grant->failed_member = relock_lock_name(taking->failed);
    (void)snprintf(why, sizeof(why), "%s: %s", relock_log_name(taking->failed->name, name),
                   taking->why);
    if (result <= RELOCK_E_NOMEM && result != RELOCK_E_CLOSED)
        relock_lock_log(taking->lock, taking->owner, "not acquired", result, why);
}

RELOCK_UNCHECKED int relock_multilock_acquire(struct relock_lock *lock,
                                              const struct relock_how *how,
                                              struct relock_grant *grant)
{
    struct taking taking = {.lock = lock, .group = lock->site->group, .how = how};
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_visit visit;
    bool named;
    int r;

    taking.owner = relock_owner_resolve(how->owner, &named);
    taking.deadline_ms = now_ms;
    if (how->wait_ms > 0)
        taking.deadline_ms = how->wait_ms == RELOCK_FOREVER
                                 ? RELOCK_NEVER
                                 : relock_clock_after(now_ms, (uint64_t)how->wait_ms);
    r = relock_client_enter(lock->client, true, &visit);
    if (r < 0)
        return r;
    r = begin(&taking);
    if (r == RELOCK_OK)
        r = take(&taking);
    relock_mutex_unlock(&lock->client->mutex);
    report(&taking, r, grant); /* the log is there as long as the call has not left */
    relock_mutex_lock(&lock->client->mutex);
    relock_client_leave(lock->client, &visit);
    end(&taking);
    return r;
}
