#include "lock/hold/owner_command.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/state/operations.h"
#include "lock/state/task.h"

void relock_owner_command_begin(struct relock_hold *hold, uint64_t lease_ms)
{
    hold->busy = true;
    (void)relock_holds_ref(hold);
    if (lease_ms > hold->lease_ms)
        hold->lease_ms = lease_ms;
}

/* The hold is busy. Meanwhile another thread may change `keeping` again. */
static void pass_keeping_on(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_operations *operations = hold->resource->kind->operations;

    while (hold->keeping_dirty) {
        hold->keeping_dirty = false;
        if (operations->keep)
            operations->keep(client, hold, hold->keeping != RELOCK_HOLD_FIXED);
    }
}

void relock_owner_command_end(struct relock_client *client, struct relock_hold *hold)
{
    pass_keeping_on(client, hold);
    hold->busy = false;
    relock_cond_broadcast(&client->changed);
    relock_task_pass(hold);
    if (hold->state == RELOCK_HOLD_SETTLING || /* lost, and its last level released in on_lost */
        (hold->state == RELOCK_HOLD_LOST && hold->is_left))
        relock_holds_arm(client, hold, relock_clock_now_ms());
    else if (hold->state == RELOCK_HOLD_ENDED ||
             (hold->state == RELOCK_HOLD_LOST && hold->notice != RELOCK_HOLD_TO_TAKE_UP))
        relock_owner_command_release_lost(client, hold); /* which other threads left to this one */
}

void relock_owner_command_release_lost(struct relock_client *client, struct relock_hold *hold)
{
    const struct relock_operations *operations = hold->resource->kind->operations;

    if (operations->lost && !hold->busy)
        operations->lost(client, hold);
}
