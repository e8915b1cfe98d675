#include "group/membership.h"

#include "base/clock.h"
#include "lock/call/release.h"
#include "lock/hold/holds.h"

#include <stdlib.h>

/* The hold of the composite with this number. NULL when it is over. */
static struct relock_hold *find_composite(const struct relock_group *group, uint64_t number)
    RELOCK_REQUIRES(group->coordinator->mutex)
{
    struct relock_hold *hold;

    if (!group->resource)
        return NULL;
    DL_FOREACH(group->resource->holds, hold)
    if (hold->number == number)
        return hold;
    return NULL;
}

/* The hold of a member ended without a release. Returns false if the composite has ended already.
 */
static bool lose(struct relock_group *group, uint64_t composite, size_t member, int reason)
{
    struct relock_hold *hold;

    relock_mutex_lock(&group->coordinator->mutex);
    hold = find_composite(group, composite);
    if (hold && relock_hold_is_held(hold)) {
        hold->lost_on = group->members[member]->resource;
        relock_holds_lose(group->coordinator, hold, reason, relock_clock_now_ms());
    }
    relock_mutex_unlock(&group->coordinator->mutex);
    return hold != NULL;
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
        reason = hold->lost_reason;
    relock_client_leave(member->client, &guard);
    return reason;
}

bool relock_group_miss(struct relock_group *group, uint64_t composite, size_t member,
                       uint64_t owner)
{
    return lose(group, composite, member, why_lost(group->members[member], owner));
}

int relock_group_release(struct relock_lock *member, uint64_t owner, uint64_t deadline_ms,
                         bool *asks)
{
    int r = *asks ? relock_release_by(member, owner, deadline_ms)
                  : relock_release_unasked(member, owner);

    *asks = *asks && r != RELOCK_E_CONN;
    return r;
}

/* ---- memberships --------------------------------------------------------------------------- */

static void on_member_lost(struct relock_client *client, struct relock_hold *hold,
                           struct relock_observer *observer) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_membership *membership = (const struct relock_membership *)observer;
    struct relock_group *group = relock_group_ref(membership->group);
    uint64_t composite = membership->composite;
    size_t member = membership->member;
    int reason = hold->lost_reason;

    relock_mutex_unlock(&client->mutex);
    (void)lose(group, composite, member, reason);
    relock_group_unref(group);
    relock_mutex_lock(&client->mutex);
}

static void free_membership(struct relock_observer *observer)
{
    struct relock_membership *membership = (struct relock_membership *)observer;

    relock_group_unref(membership->group);
    free(membership);
}

static const struct relock_observer_ops membership_ops = {
    .lost = on_member_lost,
    .gone = free_membership, /* released apart from the composite, which finds out by itself */
};

bool relock_group_join(struct relock_membership *membership, uint64_t owner)
{
    struct relock_lock *member = membership->group->members[membership->member];
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
    relock_client_leave(member->client, &guard);
    return joins;
}

static struct relock_membership *find_membership(const struct relock_group *group,
                                                 const struct relock_hold *hold, uint64_t composite)
{
    struct relock_observer *observer;

    DL_FOREACH(hold->observers, observer)
    {
        struct relock_membership *membership = (struct relock_membership *)observer;

        if (observer->ops == &membership_ops && membership->group == group &&
            membership->composite == composite)
            return membership;
    }
    return NULL;
}

static struct relock_membership *take_membership(const struct relock_group *group,
                                                 const struct relock_lock *member,
                                                 uint64_t composite, uint64_t owner)
{
    struct relock_membership *membership = NULL;
    struct relock_guard guard;
    struct relock_hold *hold;

    if (!relock_client_enter(member->client, false, &guard))
        return NULL;
    hold = relock_resource_find(member->resource, owner);
    if (hold)
        membership = find_membership(group, hold, composite);
    if (membership)
        relock_observer_remove(member->client, hold, &membership->observer);
    relock_client_leave(member->client, &guard);
    return membership;
}

void relock_group_part(struct relock_group *group, uint64_t composite, uint64_t owner)
{
    for (size_t i = 0; i < group->n; i++) {
        struct relock_membership *membership =
            take_membership(group, group->members[i], composite, owner);

        if (membership)
            free_membership(&membership->observer);
    }
}
