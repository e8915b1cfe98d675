/*
 * Multi locks, several locks as one: each member is acquired as the owner itself would acquire it,
 * one after the other in the order of all, and released in the opposite order. So a member that the
 * owner holds already is nested in, and a call that waits for a member waits in the queue of that
 * member.
 *
 * The composite's hold counts the levels, one of each member for each, and is lost with the first
 * member that is. How long it is certain its members say.
 */
#include "base/clock.h"
#include "base/status.h"
#include "group/private.h"
#include "lock/call/call.h"
#include "lock/hold/holds.h"
#include "lock/state/observer.h"
#include "lock/wake/wake.h"

#include <stdio.h>
#include <stdlib.h>

struct bond;

/* On the owner's hold of a member: if that is lost, so is the composite. */
struct membership {
    struct relock_observer observer;
    struct bond *bond; /* a reference */
    size_t member;
};

/* The memberships of one hold of the composite. Constant once they follow the members' holds. */
struct bond {
    atomic_uint refs;
    struct relock_group *group; /* a reference */
    uint64_t composite;         /* the number of the hold of the composite */
    struct membership memberships[];
};

/* ---- a member whose hold is lost ----------------------------------------------------------- */

/* The hold of the composite with this number. NULL when it is over. */
static struct relock_hold *find_composite(const struct relock_group *group, uint64_t number)
    RELOCK_REQUIRES(group->coordinator->mutex)
{
    struct relock_hold *hold;

    if (!group->resource)
        return NULL;
    LL_FOREACH(group->resource->holds, hold)
    if (hold->number == number)
        return hold;
    return NULL;
}

/* The hold of a member ended without a release. Does nothing if the composite has ended already. */
static void lose(struct relock_group *group, uint64_t composite, size_t member, int reason)
{
    struct relock_hold *hold;

    relock_mutex_lock(&group->coordinator->mutex);
    hold = find_composite(group, composite);
    if (hold && relock_hold_is_held(hold)) {
        hold->lost_on = group->members[member]->resource;
        relock_holds_lose(group->coordinator, hold, reason, relock_clock_now_ms());
    }
    relock_mutex_unlock(&group->coordinator->mutex);
}

static int why_lost(const struct relock_lock *member, uint64_t owner)
{
    struct relock_guard guard;
    struct relock_hold *hold;
    int reason = RELOCK_LOST_GONE;

    if (!relock_client_enter(member->client, false, &guard))
        return reason;
    hold = relock_resource_find(member->resource, owner);
    if (hold && hold->state == RELOCK_HOLD_LOST)
        reason = (int)hold->lost_reason;
    relock_client_exit(member->client, &guard);
    return reason;
}

/* The owner has no hold of a member, or a lost one: loses the composite. */
static void group_miss(struct relock_group *group, uint64_t composite, size_t member,
                       uint64_t owner)
{
    lose(group, composite, member, why_lost(group->members[member], owner));
}

/* Releases one level of a member. `*asks`: the call asks the server; otherwise the I/O thread does
 * so later. Clears it if the server is unreachable, so that the call does not wait for each member.
 */
static int group_release(struct relock_lock *member, uint64_t owner, uint64_t deadline_ms,
                         bool *asks)
{
    int r = *asks ? relock_release_by(member, owner, deadline_ms, false, false)
                  : relock_release_unasked(member, owner);

    *asks = *asks && r != RELOCK_E_CONN;
    return r;
}

/* ---- following the members ----------------------------------------------------------------- */

static void on_member_lost(struct relock_client *client, struct relock_hold *hold,
                           struct relock_observer *observer) RELOCK_REQUIRES(client->mutex)
{
    const struct membership *membership = (const struct membership *)observer;
    struct relock_group *group = relock_group_ref(membership->bond->group);
    uint64_t composite = membership->bond->composite;
    size_t member = membership->member;
    int reason = (int)hold->lost_reason;

    relock_mutex_unlock(&client->mutex);
    lose(group, composite, member, reason);
    relock_group_unref(group);
    relock_mutex_lock(&client->mutex);
}

static void drop_bond(struct bond *bond, unsigned n_refs)
{
    if (n_refs == 0 || atomic_fetch_sub(&bond->refs, n_refs) > n_refs)
        return;
    relock_group_unref(bond->group);
    free(bond);
}

static void drop_membership(struct relock_observer *observer)
{
    drop_bond(((struct membership *)observer)->bond, 1);
}

static const struct relock_observer_ops membership_ops = {
    .lost = on_member_lost,
    .gone = drop_membership, /* released apart from the composite, which finds out by itself */
};

/* The owner's hold of the member becomes part of the composite and takes the membership over.
 * Returns false if the owner holds the member no more. */
static bool group_join(struct membership *membership, uint64_t owner)
{
    struct relock_lock *member = membership->bond->group->members[membership->member];
    struct relock_guard guard;
    struct relock_hold *hold;
    bool joins;

    if (!relock_client_enter(member->client, false, &guard))
        return false;
    hold = relock_resource_find(member->resource, owner);
    joins = hold && relock_hold_is_held(hold);
    if (joins) {
        membership->observer.ops = &membership_ops;
        relock_observer_add(member->client, hold, &membership->observer);
    }
    relock_client_exit(member->client, &guard);
    return joins;
}

static struct membership *find_membership(const struct relock_group *group,
                                          const struct relock_hold *hold, uint64_t composite)
{
    struct relock_observer *observer;

    DL_FOREACH(hold->observers, observer)
    {
        struct membership *membership = (struct membership *)observer;

        if (observer->ops == &membership_ops && membership->bond->group == group &&
            membership->bond->composite == composite)
            return membership;
    }
    return NULL;
}

static struct membership *take_membership(const struct relock_group *group,
                                          const struct relock_lock *member, uint64_t composite,
                                          uint64_t owner)
{
    struct membership *membership = NULL;
    struct relock_guard guard;
    struct relock_hold *hold;

    if (!relock_client_enter(member->client, false, &guard))
        return NULL;
    hold = relock_resource_find(member->resource, owner);
    if (hold)
        membership = find_membership(group, hold, composite);
    if (membership)
        relock_observer_remove(member->client, hold, &membership->observer);
    relock_client_exit(member->client, &guard);
    return membership;
}

/* The owner's holds of all members cease to be part of the composite. */
static void group_part(struct relock_group *group, uint64_t composite, uint64_t owner)
{
    for (size_t i = 0; i < group->n; i++) {
        struct membership *membership = take_membership(group, group->members[i], composite, owner);

        if (membership)
            drop_membership(&membership->observer);
    }
}

/* ---- acquiring all members or none --------------------------------------------------------- */

/*
 * Acquiring a multi lock: one member after the other, in the order of all. One time limit
 * applies to all of them. The watchdog renews the members held so far, also those with a fixed
 * lease; if one is lost before all are held, the call starts over.
 */

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
    relock_client_exit(member->client, &guard);
}

static void release_collected(const struct taking *taking, size_t n)
{
    bool asks = true;

    while (n-- > 0) {
        struct relock_lock *member = taking->group->members[n];
        uint64_t until_ms = limit_ms(taking, member->client->options.release_timeout_ms);

        (void)group_release(member, owner_of(taking), until_ms, &asks);
        stop_keeping(taking, member);
    }
}

static int fail(const struct taking *taking, size_t nth, int result, const char *why)
{
    const struct relock_lock *member = taking->group->members[nth];
    char name[RELOCK_LOG_NAME_MAX];

    taking->acquire->failed_name = relock_lock_name(member);
    (void)snprintf(taking->acquire->why, RELOCK_WHY_MAX, "%s: %s",
                   relock_log_name(relock_lock_named(member)->name, name), why);
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
                    taking->acquire->give_up_ms, &grant);
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
            release_collected(taking, i);
            return r;
        }
    }
    for (size_t i = 0; i < n; i++) {
        int r = look_at_member(taking, i);

        if (r < 0) {
            release_collected(taking, n);
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
static bool is_vouched(const struct relock_acquire *acquire, const struct relock_group *group,
                       uint64_t owner) RELOCK_REQUIRES(acquire->client->mutex)
{
    for (size_t i = 0; i < group->n; i++)
        if (group->members[i]->client != acquire->client)
            return relock_drain_has_hold(acquire->client, owner);
    return false;
}

/* One level of each member, as the operations `ask` and `nest`. */
static void collect(struct relock_acquire *acquire, struct relock_hold *hold,
                    struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct taking taking = {.acquire = acquire, .group = relock_group_of(hold->resource)};
    int r = relock_cancel_new(&taking.call.stop);

    if (r == RELOCK_OK) {
        taking.call.owner = owner_of(&taking);
        taking.is_vouched = is_vouched(acquire, taking.group, taking.call.owner);
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

/* ---- a level ------------------------------------------------------------------------------- */

static void free_bond(struct relock_hold *hold)
{
    free(hold->data);
    hold->data = NULL;
}

/* Allocates the memberships before the acquire, so that a grant cannot fail for memory. */
static void ask(struct relock_acquire *acquire, struct relock_hold *hold,
                struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    size_t n = relock_group_of(hold->resource)->n;

    hold->data = calloc(1, sizeof(struct bond) + (n * sizeof(struct membership)));
    if (hold->data) {
        collect(acquire, hold, answer);
    } else {
        answer->verdict = RELOCK_VERDICT_FAILED;
        answer->result = RELOCK_E_NOMEM;
    }
    if (answer->verdict == RELOCK_VERDICT_FAILED)
        free_bond(hold);
}

/* From now on the composite is lost with each of its members. No other thread releases it before.
 */
static void begin(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);
    struct bond *bond = hold->data;
    uint64_t number = hold->number;
    uint64_t owner = hold->owner;
    unsigned n_missed = 0;

    hold->data = NULL;
    atomic_init(&bond->refs, (unsigned)group->n);
    bond->group = relock_group_ref(group);
    bond->composite = number;
    relock_owner_command_begin(hold, 0);
    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < group->n; i++) {
        struct membership *membership = &bond->memberships[i];

        membership->bond = bond;
        membership->member = i;
        if (!group_join(membership, owner)) {
            n_missed++;
            group_miss(group, number, i, owner);
        }
    }
    drop_bond(bond, n_missed); /* if none was missed, the bond may be gone */
    relock_mutex_lock(&client->mutex);
    relock_owner_command_end(client, hold);
    relock_holds_unref(client, hold);
}

/* ---- releasing ----------------------------------------------------------------------------- */

/* The graver of two results of one release. */
static int graver(int a, int b)
{
    if (a == RELOCK_LOST || b == RELOCK_LOST)
        return RELOCK_LOST;
    return a < b ? a : b;
}

/* Whether the member's result says that its hold is over. A client that is being freed says closed
 * for all that it has, and reports no loss. */
static bool is_missing(const struct relock_client *client, const struct relock_lock *member,
                       int result)
{
    return result == RELOCK_LOST || result == RELOCK_NOT_OWNER ||
           (result == RELOCK_E_CLOSED && member->client != client);
}

/* Releases one level of each member, also if that fails for another. Under no mutex. */
static int release_members(const struct relock_client *client, const struct relock_hold *hold,
                           uint64_t deadline_ms)
{
    struct relock_group *group = relock_group_of(hold->resource);
    bool asks = deadline_ms > 0 && !relock_callback_is_inside();
    uint64_t owner = hold->owner;
    int r = RELOCK_OK;

    for (size_t i = group->n; i-- > 0;) {
        struct relock_lock *member = group->members[i];
        int r_member = group_release(member, owner, deadline_ms, &asks);

        if (is_missing(client, member, r_member)) {
            group_miss(group, hold->number, i, owner);
            r_member = RELOCK_LOST;
        }
        r = graver(r, r_member);
    }
    return r;
}

static void release(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms,
                    struct relock_answer *answer) RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);
    bool is_last = hold->count == 0;

    free_bond(hold);
    relock_mutex_unlock(&client->mutex);
    if (is_last)
        group_part(group, hold->number, hold->owner);
    answer->result = release_members(client, hold, deadline_ms);
    relock_mutex_lock(&client->mutex);
    answer->is_reported = true;
    if (answer->result == RELOCK_LOST)
        answer->verdict = RELOCK_VERDICT_GONE;
    else if (answer->result < 0)
        answer->verdict = RELOCK_VERDICT_FAILED;
}

static void drop_level(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_answer answer = {0};

    release(client, hold, deadline_ms, &answer);
}

/* A level that was collected while the composite was lost or given up has no owner. */
static void nest(struct relock_acquire *acquire, struct relock_hold *hold,
                 struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    collect(acquire, hold, answer);
    if (answer->verdict != RELOCK_VERDICT_DONE || relock_hold_is_held(hold))
        return;
    answer->verdict = RELOCK_VERDICT_FAILED;
    answer->result = RELOCK_LOST;
    relock_mutex_unlock(&acquire->client->mutex);
    (void)release_members(acquire->client, hold,
                          relock_acquire_limit_ms(acquire, relock_clock_now_ms()));
    relock_mutex_lock(&acquire->client->mutex);
}

/* The levels that are left, without asking. */
static void let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);
    unsigned count = hold->count;

    (void)now_ms;
    hold->count = 0;
    free_bond(hold);
    relock_mutex_unlock(&client->mutex);
    if (count > 0)
        group_part(group, hold->number, hold->owner);
    for (; count > 0; count--)
        (void)release_members(client, hold, 0);
    relock_mutex_lock(&client->mutex);
    relock_holds_end(client, hold);
}

/* ---- keeping ------------------------------------------------------------------------------- */

static void extend(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                   uint64_t deadline_ms, struct relock_answer *answer)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);

    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < group->n && answer->result == RELOCK_OK; i++) {
        answer->result = relock_extend_by(group->members[i], hold->owner, lease_ms, deadline_ms);
        if (is_missing(client, group->members[i], answer->result))
            group_miss(group, hold->number, i, hold->owner);
    }
    relock_mutex_lock(&client->mutex);
    answer->is_reported = true;
    if (answer->result < 0)
        answer->verdict = RELOCK_VERDICT_FAILED;
}

/* The weakest member says how long; a member that is missing ends the composite. */
static uint64_t check(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t valid_ms = UINT64_MAX;
    bool is_held = true;

    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < group->n && is_held; i++) {
        struct relock_grant grant;
        int r = relock_check(group->members[i], hold->owner, &grant);

        is_held = !is_missing(client, group->members[i], r);
        if (!is_held)
            group_miss(group, hold->number, i, hold->owner);
        valid_ms = relock_clock_sooner(valid_ms, grant.valid_ms);
    }
    relock_mutex_lock(&client->mutex);
    return relock_clock_after(now_ms, valid_ms);
}

/* ---- kind ---------------------------------------------------------------------------------- */

static const struct relock_operations operations = {
    .ask = ask,
    .begin = begin,
    .nest = nest,
    .release = release,
    .drop_level = drop_level,
    .extend = extend,
    .inspect = relock_survey_run,
    .check = check,
    .let_go = let_go,
};

const struct relock_kind relock_kind_multi = {
    .is_composite = true,
    .is_collection = true,
    .is_shared = true,
    .operations = &operations,
};
