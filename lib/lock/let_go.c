#include "lock/let_go.h"

#include "lock/holds.h"
#include "lock/kind.h"
#include "lock/operations.h"
#include "lock/subscription.h"

/* Unless Redis is known not to have the hold: if only its time ran out, Redis may still have it. */
static void let_go_or_end(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_operations *operations = hold->resource->kind->operations;
    bool is_known_to_be_gone = hold->state == RELOCK_HOLD_LOST &&
                               hold->lost_reason != RELOCK_LOST_EXPIRED &&
                               hold->lost_reason != RELOCK_LOST_CAPPED && !operations->lost &&
                               !hold->resource->kind->is_collection;

    if (!is_known_to_be_gone) {
        operations->let_go(client, hold, now_ms);
    } else {
        hold->count = 0;
        relock_holds_end(client, hold);
    }
}

void relock_let_go_lost(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    let_go_or_end(client, hold, now_ms);
}

static void leave_unreleased(struct relock_client *client, struct relock_hold *hold,
                             uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    relock_holds_leave(client, hold);
    if (!hold->detached) {
        relock_resource_released(hold->resource, false, now_ms);
        relock_subscription_idle(client, hold->resource);
    }
    let_go_or_end(client, hold, now_ms);
}

void relock_let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    (void)relock_holds_ref(hold);
    switch (hold->state) {
    case RELOCK_HOLD_ASKED:
        let_go_or_end(client, hold, now_ms);
        break;
    case RELOCK_HOLD_HELD:
    case RELOCK_HOLD_SUSPECT:
        leave_unreleased(client, hold, now_ms);
        break;
    case RELOCK_HOLD_LOST:
        relock_holds_leave_lost(client, hold);
        let_go_or_end(client, hold, now_ms);
        break;
    case RELOCK_HOLD_LEAVING:
    case RELOCK_HOLD_SETTLING:
    case RELOCK_HOLD_ENDED:
        break;
    }
    relock_holds_unref(client, hold);
}
