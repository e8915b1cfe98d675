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
    return bond;
}

struct relock_bond *relock_bond_ref(struct relock_bond *bond)
{
    (void)atomic_fetch_add(&bond->refs, 1);
    return bond;
}

void relock_bond_unref(struct relock_bond *bond, size_t n_refs)
{
    if (atomic_fetch_sub(&bond->refs, (unsigned)n_refs) > n_refs)
        return;
    relock_group_unref(bond->group);
    free(bond);
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
    relock_bond_unref(bond, 1);
    relock_mutex_lock(&client->mutex);
}

static void drop_membership(struct relock_observer *observer)
{
    relock_bond_unref(((struct relock_membership *)observer)->bond, 1);
}

static const struct relock_observer_ops membership_ops = {
    .lost = on_member_lost,
    .gone = drop_membership, /* released apart from the composite, which finds out by itself */
};

bool relock_bond_join(struct relock_bond *bond, size_t nth)
{
    struct relock_client *client = bond->group->members[nth]->client;
    struct relock_membership *membership = &bond->memberships[nth];
    struct relock_guard guard;
    struct relock_hold *hold;
    bool joins;

    if (!relock_client_enter(client, false, &guard))
        return false;
    hold = relock_bond_find(client, bond, nth);
    joins = hold && relock_hold_is_held(hold);
    if (joins) {
        membership->observer.ops = &membership_ops;
        relock_observer_add(client, hold, &membership->observer);
    }
    relock_client_exit(client, &guard);
    return joins;
}

/* Whether the hold is part of this composite. */
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

size_t relock_bond_part(struct relock_bond *bond)
{
    size_t n_refs = 0;

    for (size_t i = 0; i < bond->group->n; i++) {
        struct relock_client *client = bond->group->members[i]->client;
        struct relock_membership *membership = &bond->memberships[i];
        struct relock_guard guard;
        struct relock_hold *hold;
        bool parts;

        if (!relock_client_enter(client, false, &guard))
            continue;
        hold = relock_bond_find(client, bond, i);
        parts = hold && is_joined(hold, membership);
        if (parts)
            relock_observer_remove(client, hold, &membership->observer);
        relock_client_exit(client, &guard);
        n_refs += parts;
    }
    return n_refs;
}
