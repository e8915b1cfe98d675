#include "lock/hold/let_go.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/hold/reuse.h"
#include "lock/state/kind.h"
#include "lock/state/operations.h"
#include "lock/wake/subscription.h"

static void leave(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    relock_holds_leave(client, hold);
    if (hold->detached)
        return;
    relock_resource_released(hold->resource, false, now_ms);
    relock_subscription_idle(client, hold->resource);
}

static void leave_cache(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    relock_reuse_leave_cache(client, hold);
    relock_subscription_idle(client, hold->resource);
}

void relock_let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    switch (hold->state) {
    case RELOCK_HOLD_ASKED:
        break;
    case RELOCK_HOLD_HELD:
    case RELOCK_HOLD_SUSPECT:
        leave(client, hold, now_ms);
        break;
    case RELOCK_HOLD_LOST:
        relock_holds_leave_lost(client, hold);
        break;
    case RELOCK_HOLD_CACHED:
        leave_cache(client, hold);
        break;
    case RELOCK_HOLD_LEAVING:
    case RELOCK_HOLD_SETTLING:
    case RELOCK_HOLD_ENDED:
        return;
    }
    hold->resource->kind->operations->let_go(client, hold, now_ms);
}

void relock_let_go_suspect(struct relock_client *client, struct relock_hold *hold,
                           uint64_t again_ms)
{
    if (hold->state == RELOCK_HOLD_CACHED)
        relock_let_go(client, hold, relock_clock_now_ms());
    else
        relock_holds_suspect(client, hold, again_ms);
}
