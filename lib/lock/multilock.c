/*
 * Multi locks: each member is taken as the owner itself would take it, one after the other in the
 * order of all, and given up the same way. So a member that the owner has already is nested in, and
 * who waits for a member waits in its queue like everybody else.
 *
 * The whole has a hold of its own, on the client of the first member, which counts its levels and
 * is lost with the first member that is. How long it is certain is asked of the members.
 */
#include "lock/multilock.h"

#include "base/callback.h"
#include "base/clock.h"
#include "base/status.h"
#include "lock/group.h"
#include "lock/holds.h"
#include "lock/lock.h"
#include "lock/losses.h"
#include "lock/owner.h"

/* ---- giving up and keeping ----------------------------------------------------------------- */

/* The graver of two results of one release. */
static int graver(int a, int b)
{
    if (a == RELOCK_LOST || b == RELOCK_LOST)
        return RELOCK_LOST;
    return a < b ? a : b;
}

/* Whether the member's result says that its hold is over. A client that is being freed says closed
 * for all that it has, and tells of no loss. */
static bool is_missing(const struct relock_lock *lock, const struct relock_lock *member, int result)
{
    return result == RELOCK_LOST || result == RELOCK_NOT_OWNER ||
           (result == RELOCK_E_CLOSED && member->client != lock->client);
}

/* All are given up, whatever becomes of one: without asking when one server could not be reached,
 * so that it does not take that long for each. The time limit is one for all of them. */
static int release_members(const struct relock_lock *lock, uint64_t owner, bool in_callback)
{
    const struct relock_group *group = lock->site->group;
    uint64_t deadline_ms = relock_release_limit_ms(lock);
    bool asks = !in_callback;
    int r = RELOCK_OK;

    for (size_t i = group->n; i-- > 0;) {
        struct relock_lock *member = group->members[i];
        int r_member = asks ? relock_release_by(member, owner, deadline_ms)
                            : relock_release_unasked(member, owner);

        asks = asks && r_member != RELOCK_E_CONN;
        r = graver(r, is_missing(lock, member, r_member) ? RELOCK_LOST : r_member);
    }
    return r;
}

/* With the reference, and what stands in members' holds. */
static void end_whole(struct relock_lock *lock, struct relock_hold *whole)
    RELOCK_REQUIRES(lock->client->mutex)
{
    uint64_t number = whole->number;
    uint64_t owner = whole->owner;

    (void)relock_holds_ref(whole);
    relock_holds_let_go(lock->client, whole, relock_clock_now_ms());
    relock_losses_wait(lock->client, whole);
    relock_holds_unref(lock->client, whole);
    relock_mutex_unlock(&lock->client->mutex);
    relock_group_part(lock->site->group, number, owner);
    relock_mutex_lock(&lock->client->mutex);
}

RELOCK_UNCHECKED static int release(struct relock_lock *lock, uint64_t owner)
{
    struct relock_client *client = lock->client;
    struct relock_visit visit;
    struct relock_hold *whole;
    bool named;
    bool in_callback = relock_callback_is_inside();
    int r;
    int r_members;

    owner = relock_owner_resolve(owner, &named);
    r = relock_client_enter(client, false, &visit);
    if (r < 0)
        return r;
    whole = relock_site_find(lock->site, owner);
    r = whole && whole->state == RELOCK_HOLD_LOST ? RELOCK_LOST : RELOCK_OK;
    if (in_callback && (r == RELOCK_OK || relock_losses_block(client, whole)))
        r = RELOCK_E_DEADLOCK;
    else if (!whole)
        r = RELOCK_NOT_OWNER;
    if (r == RELOCK_OK || r == RELOCK_LOST) {
        if (--whole->count == 0) {
            relock_owner_count(owner, -1);
            end_whole(lock, whole);
        }
        relock_mutex_unlock(&client->mutex);
        r_members = release_members(lock, owner, in_callback);
        r = graver(r, r_members);
        relock_mutex_lock(&client->mutex);
    }
    relock_client_leave(client, &visit);
    return r;
}

/* Whether the owner has the whole: RELOCK_OK, RELOCK_LOST, RELOCK_NOT_OWNER. */
static int look_at_whole(const struct relock_lock *lock, uint64_t owner, uint64_t *number,
                         unsigned *count) RELOCK_REQUIRES(lock->client->mutex)
{
    const struct relock_hold *whole = relock_site_find(lock->site, owner);

    *number = whole ? whole->number : 0;
    *count = whole ? whole->count : 0;
    if (!whole)
        return RELOCK_NOT_OWNER;
    return whole->state == RELOCK_HOLD_LOST ? RELOCK_LOST : RELOCK_OK;
}

/* The member is missing: with it the whole is lost, if it was not given up meanwhile. */
static int miss(const struct relock_lock *lock, uint64_t whole, size_t member, uint64_t owner)
{
    return relock_group_miss(lock->site->group, whole, member, owner) ? RELOCK_LOST : RELOCK_AGAIN;
}

static int extend_once(const struct relock_lock *lock, uint64_t owner, uint64_t lease_ms)
    RELOCK_REQUIRES(lock->client->mutex)
{
    const struct relock_group *group = lock->site->group;
    uint64_t number;
    unsigned count;
    int r = look_at_whole(lock, owner, &number, &count);

    relock_mutex_unlock(&lock->client->mutex);
    for (size_t i = 0; i < group->n && r == RELOCK_OK; i++) {
        r = relock_extend(group->members[i], owner, lease_ms);
        if (is_missing(lock, group->members[i], r))
            r = miss(lock, number, i, owner);
    }
    relock_mutex_lock(&lock->client->mutex);
    return r;
}

RELOCK_UNCHECKED static int extend(struct relock_lock *lock, uint64_t owner, uint64_t lease_ms)
{
    struct relock_visit visit;
    bool named;
    int r;

    owner = relock_owner_resolve(owner, &named);
    r = relock_client_enter(lock->client, true, &visit);
    if (r < 0)
        return r;
    do {
        r = extend_once(lock, owner, lease_ms);
    } while (r == RELOCK_AGAIN);
    relock_client_leave(lock->client, &visit);
    return r;
}

void relock_multilock_weaken(struct relock_grant *weakest, const struct relock_grant *member,
                             bool is_first)
{
    if (is_first || member->valid_ms < weakest->valid_ms)
        weakest->valid_ms = member->valid_ms;
    if (is_first || member->acked_replicas < weakest->acked_replicas)
        weakest->acked_replicas = member->acked_replicas;
}

static int check_once(const struct relock_lock *lock, uint64_t owner, struct relock_grant *grant)
    RELOCK_REQUIRES(lock->client->mutex)
{
    const struct relock_group *group = lock->site->group;
    uint64_t number;
    unsigned count;
    int r = look_at_whole(lock, owner, &number, &count);

    relock_mutex_unlock(&lock->client->mutex);
    *grant = (struct relock_grant){0};
    if (r != RELOCK_NOT_OWNER)
        *grant = (struct relock_grant){.owner = owner, .hold_count = count};
    for (size_t i = 0; i < group->n && r == RELOCK_OK; i++) {
        struct relock_grant of_member;

        r = relock_check(group->members[i], owner, &of_member);
        if (is_missing(lock, group->members[i], r))
            r = miss(lock, number, i, owner);
        relock_multilock_weaken(grant, &of_member, i == 0);
    }
    if (r == RELOCK_LOST)
        grant->valid_ms = 0;
    else if (r != RELOCK_OK)
        *grant = (struct relock_grant){0};
    relock_mutex_lock(&lock->client->mutex);
    return r;
}

RELOCK_UNCHECKED static int check(struct relock_lock *lock, uint64_t owner,
                                  struct relock_grant *grant)
{
    struct relock_visit visit;
    bool named;
    int r;

    owner = relock_owner_resolve(owner, &named);
    r = relock_client_enter(lock->client, false, &visit);
    if (r < 0)
        return r;
    do {
        r = check_once(lock, owner, grant);
    } while (r == RELOCK_AGAIN);
    relock_client_leave(lock->client, &visit);
    return r;
}

/* ---- the end of a client ------------------------------------------------------------------- */

static struct relock_hold *find_whole(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_site *site;

    for (site = client->guarded.groups; site; site = site->hh.next)
        if (site->kind->calls && site->holds)
            return site->holds;
    return NULL;
}

void relock_multilock_let_all_go(struct relock_client *client)
{
    struct relock_hold *whole;

    while ((whole = find_whole(client))) {
        struct relock_group *group = relock_group_ref(whole->site->group);
        uint64_t number = whole->number;
        uint64_t owner = whole->owner;
        unsigned count = whole->count;

        relock_holds_let_go(client, whole, relock_clock_now_ms());
        relock_mutex_unlock(&client->mutex);
        relock_group_part(group, number, owner);
        for (size_t i = 0; i < group->n; i++)
            for (unsigned level = 0; level < count; level++)
                (void)relock_release_unasked(group->members[i], owner);
        relock_group_unref(group);
        relock_mutex_lock(&client->mutex);
    }
}

/* ---- new ----------------------------------------------------------------------------------- */

static const struct relock_calls calls = {
    .acquire = relock_multilock_acquire,
    .release = release,
    .extend = extend,
    .check = check,
};

static const struct relock_kind multi = {.calls = &calls};

int relock_multilock_new(struct relock_lock *const *locks, size_t n, struct relock_lock **lock)
{
    if (!locks || n == 0 || !lock)
        return RELOCK_E_INVALID;
    for (size_t i = 0; i < n; i++)
        if (!locks[i])
            return RELOCK_E_INVALID;
    return relock_group_make(&multi, locks, n, lock);
}
