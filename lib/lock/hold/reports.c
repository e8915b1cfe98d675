#include "lock/hold/reports.h"

#include "base/clock.h"
#include "lock/hold/arming.h"
#include "lock/hold/holds.h"
#include "lock/state/resources.h"
#include "lock/wake/vigil.h"
#include "redis/deployment/topology.h"

static void check_at(struct relock_client *client, struct relock_hold *hold, uint64_t at_ms,
                     uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    relock_arming_drop(hold);
    if (!relock_hold_is_live(hold))
        return;
    relock_arming_set(hold, at_ms);
    relock_holds_arm(client, hold, now_ms);
}

/* If a command is in flight, its reply may be older than the report, so a check follows. */
static void hear(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    check_at(client, hold, relock_arming_pace(hold, now_ms), now_ms);
}

static void hear_all(struct relock_client *client, uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        if (hold->arming.node)
            hear(client, hold, now_ms);
    }
}

static void hear_of(struct relock_client *client, const struct relock_resource *primary,
                    uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    while (primary->armed)
        hear(client, primary->armed, now_ms);
}

void relock_reports_own_change(struct relock_client *client, struct relock_resource *resource)
{
    hear_of(client, resource->primary, relock_clock_now_ms());
    relock_vigil_spend(client, resource->primary);
}

void relock_reports_hear(struct relock_client *client, const char *key, size_t len)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_resource *resource;

    if (!key) {
        hear_all(client, now_ms);
        return;
    }
    resource = relock_resources_find_key(client, key, len);
    if (resource)
        hear_of(client, resource, now_ms);
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* The I/O thread alone, as relock_topology_find() requires. */
static const struct relock_node *node_of(struct relock_client *client,
                                         const struct relock_hold *hold)
{
    return relock_topology_find(client->topology, relock_resource_key(hold->resource));
}

/* It has become old enough while no node could report. A younger one is not due yet. */
static bool is_to_be_armed(struct relock_client *client, const struct relock_hold *hold,
                           const struct relock_node *node)
{
    return !hold->arming.node && hold->arming.due_ms == RELOCK_NEVER &&
           hold->resource->kind->renew && node_of(client, hold) == node;
}

/* When a node reports no more, its holds may have another one. */
void relock_reports_turn(struct relock_client *client, const struct relock_node *node, bool is_on)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        bool was_armed = hold->arming.node == node;

        if (is_on ? is_to_be_armed(client, hold, node) : was_armed)
            check_at(client, hold, now_ms, now_ms);
    }
}

void relock_reports_follow(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        if (hold->arming.node && node_of(client, hold) != hold->arming.node)
            check_at(client, hold, now_ms, now_ms);
    }
}
