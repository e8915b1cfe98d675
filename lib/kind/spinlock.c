#include "kind/reentrant.h"

/* As a reentrant lock in Redis, so both exclude each other; but a release is not published. */
static const struct relock_kind spin = {
    RELOCK_KIND_BY_LOCK_LUA,
    .is_polled = true,
};

#define PAUSE_MAX_MS 3600000

int relock_spinlock_set_pauses(struct relock_lock *lock, uint64_t min_ms, uint64_t max_ms)
{
    const struct relock_kind *kind = lock ? lock->resource->kind : NULL;
    struct relock_guard guard;

    if (!lock || min_ms == 0 || min_ms > max_ms || max_ms > PAUSE_MAX_MS)
        return relock_lock_refuse(lock, "relock_spinlock_set_pauses: `min_ms` is 0 or above "
                                        "`max_ms`, or `max_ms` is above an hour");
    if (!kind->is_polled || kind->is_composite)
        return RELOCK_E_UNSUPPORTED;
    if (!relock_client_enter(lock->client, false, &guard))
        return guard.result;
    lock->resource->pause_min_ms = min_ms;
    lock->resource->pause_max_ms = max_ms;
    relock_client_leave(lock->client, &guard);
    return RELOCK_OK;
}

int relock_spinlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &spin, name, lock);
}
