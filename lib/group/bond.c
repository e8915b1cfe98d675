#include "group/private.h"

#include "base/clock.h"
#include "lock/hold/holds.h"

#include <stdlib.h>

/* ---- the memberships of a hold ------------------------------------------------------------- */

struct relock_bond *relock_bond_new(const struct relock_hold *hold)
{
    struct relock_group *group = relock_group_of(hold->resource);
    struct relock_bond *bond =
        calloc(1, sizeof(*bond) + (group->n * sizeof(struct relock_membership)));

    if (!bond)
        return NULL;
    atomic_init(&bond->refs, 1);
    bond->group = relock_group_ref(group);
    bond->composite = hold->number;
    bond->owner = hold->owner;
    for (size_t i = 0; i < group->n; i++) {
        bond->memberships[i].bond = bond;
        bond->memberships[i].member = i;
    }
    return bond;
}

struct relock_bond *relock_bond_ref(struct relock_bond *bond)
{
    (void)atomic_fetch_add(&bond->refs, 1);
    return bond;
}

static void unref(struct relock_bond *bond, unsigned n_refs)
{
    if (atomic_fetch_sub(&bond->refs, n_refs) > n_refs)
        return;
    relock_group_unref(bond->group);
    free(bond);
}

void relock_bond_unref(struct relock_bond *bond)
{
    unref(bond, 1);
}

struct relock_hold *relock_bond_find(const struct relock_client *client,
                                     const struct relock_bond *bond, size_t member)
{
    (void)client;
    return relock_resource_find_number(bond->group->members[member]->resource, bond->owner,
                                       bond->memberships[member].number);
}

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
static void lose(const struct relock_bond *bond, size_t member, int reason)
{
    struct relock_group *group = bond->group;
    struct relock_hold *hold;

    relock_mutex_lock(&group->coordinator->mutex);
    hold = find_composite(group, bond->composite);
    if (hold && relock_hold_is_held(hold)) {
        hold->lost_on = group->members[member]->resource;
        relock_holds_lose(group->coordinator, hold, reason, relock_clock_now_ms());
    }
    relock_mutex_unlock(&group->coordinator->mutex);
}

static int why_lost(const struct relock_bond *bond, size_t member)
{
    struct relock_client *client = bond->group->members[member]->client;
    struct relock_guard guard;
    struct relock_hold *hold;
    int reason = RELOCK_LOST_GONE;

    if (!relock_client_enter(client, false, &guard))
        return reason;
    hold = relock_bond_find(client, bond, member);
    if (hold && hold->state == RELOCK_HOLD_LOST)
        reason = (int)hold->lost_reason;
    relock_client_exit(client, &guard);
    return reason;
}

void relock_bond_miss(const struct relock_bond *bond, size_t member)
{
    lose(bond, member, why_lost(bond, member));
}

/* ---- following the members ----------------------------------------------------------------- */

static void on_member_lost(struct relock_client *client, struct relock_hold *hold,
                           struct relock_observer *observer) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_membership *membership = (const struct relock_membership *)observer;
    struct relock_bond *bond = relock_bond_ref(membership->bond);
    size_t member = membership->member;
    int reason = (int)hold->lost_reason;

    relock_mutex_unlock(&client->mutex);
    lose(bond, member, reason);
    relock_bond_unref(bond);
    relock_mutex_lock(&client->mutex);
}

static void drop_membership(struct relock_observer *observer)
{
    relock_bond_unref(((struct relock_membership *)observer)->bond);
}

static const struct relock_observer_ops membership_ops = {
    .lost = on_member_lost,
    .gone = drop_membership, /* released apart from the composite, which finds out by itself */
};

/* The owner's hold of the member becomes part of the multi lock. Returns false if the owner holds
 * the member no more. */
static bool join(struct relock_bond *bond, size_t member)
{
    struct relock_client *client = bond->group->members[member]->client;
    struct relock_membership *membership = &bond->memberships[member];
    struct relock_guard guard;
    struct relock_hold *hold;
    bool joins;

    if (!relock_client_enter(client, false, &guard))
        return false;
    hold = relock_bond_find(client, bond, member);
    joins = hold && relock_hold_is_held(hold);
    if (joins) {
        membership->observer.ops = &membership_ops;
        relock_observer_add(client, hold, &membership->observer);
    }
    relock_client_exit(client, &guard);
    return joins;
}

void relock_bond_join(struct relock_bond *bond)
{
    unsigned n_missed = 0;

    for (size_t i = 0; i < bond->group->n; i++) {
        (void)relock_bond_ref(bond); /* first, as the hold may end at once */
        if (!join(bond, i)) {
            n_missed++;
            relock_bond_miss(bond, i);
        }
    }
    unref(bond, n_missed);
}

static bool is_joined(const struct relock_hold *hold, const struct relock_membership *membership)
{
    const struct relock_observer *observer;

    DL_FOREACH(hold->observers, observer)
    {
        if (observer == &membership->observer)
            return true;
    }
    return false;
}

/* Returns whether the owner's hold of the member was part of the multi lock. */
static bool part(struct relock_bond *bond, size_t member)
{
    struct relock_client *client = bond->group->members[member]->client;
    struct relock_membership *membership = &bond->memberships[member];
    struct relock_guard guard;
    struct relock_hold *hold;
    bool parts;

    if (!relock_client_enter(client, false, &guard))
        return false;
    hold = relock_bond_find(client, bond, member);
    parts = hold && is_joined(hold, membership);
    if (parts)
        relock_observer_remove(client, hold, &membership->observer);
    relock_client_exit(client, &guard);
    return parts;
}

void relock_bond_part(struct relock_bond *bond)
{
    unsigned n_refs = 0;

    for (size_t i = 0; i < bond->group->n; i++)
        n_refs += part(bond, i);
    unref(bond, n_refs);
}
