/*
 * Read/write locks: two sides of one name, each with its handles, its holds and its queue.
 *
 * Redis decides between owners. This file decides only two cases, in which an owner meets itself:
 * it may read under its own write hold, and it may not write while it only reads.
 */
#include "base/clock.h"
#include "lock/call/call.h"
#include "lock/hold/acquire.h"
#include "lock/hold/holds.h"
#include "lock/state/keys.h"

#define WHY_READS "this owner holds the read side; release that first"

/* Looks at the owner's hold on the other side: RELOCK_LOST if that is lost. */
static int check_other_side(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    bool reads = acquire->resource->kind->is_shared;
    struct relock_resource *side =
        reads ? acquire->resource->primary : relock_resource_readers(acquire->resource);
    struct relock_hold *hold = side ? relock_resource_find(side, acquire->waiter.owner) : NULL;

    if (hold)
        relock_holds_check_time(acquire->client, hold, relock_clock_now_ms());
    if (hold && hold->state == RELOCK_HOLD_LOST)
        return RELOCK_LOST;
    if (!reads)
        return hold ? relock_acquire_refuse(acquire, WHY_READS) : RELOCK_OK;
    acquire->write_number = hold ? hold->number : 0;
    return RELOCK_OK;
}

static const struct relock_kind write_side = {
    .operations = &relock_command_operations,
    .lock = &relock_script_write_lock,
    .unlock = &relock_script_write_unlock,
    .renew = &relock_script_renew,
    .renew_many = &relock_script_renew_many,
    .extend = &relock_script_extend,
    .inspect = &relock_script_rw_inspect,
    .force_unlock = &relock_script_rw_force_unlock,
    .look = &relock_script_hexists,
    .channel = RELOCK_CHANNEL_RW,
    .message = RELOCK_MESSAGE_FREE_WRITE,
    .field_suffix = ":write",
    .side = RELOCK_SIDE_WRITE,
    .check_other_side = check_other_side,
};

static const struct relock_kind read_side = {
    .operations = &relock_command_operations,
    .lock = &relock_script_read_lock,
    .unlock = &relock_script_read_unlock,
    .renew = &relock_script_read_renew,
    .renew_many = &relock_script_read_renew_many,
    .extend = &relock_script_read_extend,
    .inspect = &relock_script_rw_inspect,
    .force_unlock = &relock_script_rw_force_unlock,
    .channel = RELOCK_CHANNEL_RW,
    .message = RELOCK_MESSAGE_FREE,
    .field_suffix = "",
    .side = RELOCK_SIDE_READ,
    .is_shared = true,
    .primary = &write_side,
    .check_other_side = check_other_side,
};

int relock_rdlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &read_side, name, lock);
}

int relock_wrlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &write_side, name, lock);
}
