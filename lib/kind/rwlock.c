/*
 * Read/write locks: two sides of one name, each with its handles, its holds and its queue.
 *
 * Redis decides between owners. This file decides only two cases, in which an owner meets itself:
 * it may read under its own write hold, and it may not write while it only reads.
 */
#include "base/clock.h"
#include "lock/call/commands.h"
#include "lock/hold/acquire.h"
#include "lock/hold/holds.h"
#include "lock/state/keys.h"

/* A hold of the same owner on the other side: RELOCK_OK with the hold, or RELOCK_LOST. */
static int find_on(struct relock_acquire *acquire, struct relock_resource *side,
                   struct relock_hold **hold) RELOCK_REQUIRES(acquire->client->mutex)
{
    *hold = side ? relock_resource_find(side, acquire->waiter.owner) : NULL;
    if (!*hold)
        return RELOCK_OK;
    relock_holds_check_time(acquire->client, *hold, relock_clock_now_ms());
    return (*hold)->state == RELOCK_HOLD_LOST ? RELOCK_LOST : RELOCK_OK;
}

static int check_for_writing(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_hold *read_hold;
    int r = find_on(acquire, relock_resource_readers(acquire->resource), &read_hold);

    if (r < 0)
        return r;
    return read_hold ? RELOCK_E_DEADLOCK : RELOCK_OK;
}

static int check_for_reading(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_hold *write_hold;
    int r = find_on(acquire, acquire->resource->primary, &write_hold);

    if (r < 0)
        return r;
    acquire->write_number = write_hold ? write_hold->number : 0;
    return RELOCK_OK;
}

static const struct relock_kind write_side = {
    .operations = &relock_command_operations,
    .lock = &relock_script_write_lock,
    .unlock = &relock_script_write_unlock,
    .renew = &relock_script_renew,
    .extend = &relock_script_extend,
    .inspect = &relock_script_rw_inspect,
    .force_unlock = &relock_script_rw_force_unlock,
    .look = &relock_script_hexists,
    .channel = RELOCK_CHANNEL_RW,
    .message = RELOCK_MESSAGE_FREE_WRITE,
    .field_suffix = ":write",
    .side = RELOCK_SIDE_WRITE,
    .check_other_side = check_for_writing,
};

static const struct relock_kind read_side = {
    .operations = &relock_command_operations,
    .lock = &relock_script_read_lock,
    .unlock = &relock_script_read_unlock,
    .renew = &relock_script_read_renew,
    .extend = &relock_script_read_extend,
    .inspect = &relock_script_rw_inspect,
    .force_unlock = &relock_script_rw_force_unlock,
    .channel = RELOCK_CHANNEL_RW,
    .message = RELOCK_MESSAGE_FREE,
    .field_suffix = "",
    .side = RELOCK_SIDE_READ,
    .is_shared = true,
    .primary = &write_side,
    .check_other_side = check_for_reading,
};

int relock_rdlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &read_side, name, lock);
}

int relock_wrlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &write_side, name, lock);
}
