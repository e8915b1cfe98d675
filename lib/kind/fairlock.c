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

#define PATIENCE_MIN_MS 1000
#define PATIENCE_MAX_MS 86400000

int relock_fairlock_set_patience(struct relock_lock *lock, uint64_t patience_ms)
{
    struct relock_guard guard;

    if (!lock || patience_ms < PATIENCE_MIN_MS || patience_ms > PATIENCE_MAX_MS)
        return relock_lock_refuse(lock, "relock_fairlock_set_patience: `patience_ms` is below a "
                                        "second or above a day");
    if (!lock->resource->kind->is_queued)
        return RELOCK_E_UNSUPPORTED;
    if (!relock_client_enter(lock->client, false, &guard))
        return guard.result;
    atomic_store(&lock->resource->patience_ms, (unsigned)patience_ms);
    relock_client_leave(lock->client, &guard);
    return RELOCK_OK;
}

int relock_fairlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &fair, name, lock);
}
