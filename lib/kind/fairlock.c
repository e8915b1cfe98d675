#include "kind/reentrant.h"

/*
 * A reentrant lock with a queue in Redis. Each waiter has a place of its own there, so each asks
 * for itself and has a channel of its own: only Redis knows their order.
 */
static const struct relock_kind fair = {
    RELOCK_KIND_HASH,
    .lock = &relock_script_fair_lock,
    .unlock = &relock_script_fair_unlock,
    .force_unlock = &relock_script_fair_force_unlock,
    .channel = RELOCK_CHANNEL_LOCK,
    .is_queued = true,
};

int relock_fairlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &fair, name, lock);
}
