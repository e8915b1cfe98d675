/*
 * The kinds of lock with one side: for each its table, and the functions of the public header that
 * are its own. Only scripts and flags differ; lib/lock does the work.
 */
#include "kind/kinds.h"
#include "lock/state/lock.h"

/* ---- a hash in Redis: the format of Redisson's RLock ---------------------------------------- */

#define HASH                                                                               \
    .operations = &relock_command_operations, .renew = &relock_script_renew,               \
    .renew_many = &relock_script_renew_many, .extend = &relock_script_extend,              \
    .inspect = &relock_script_inspect, .look = &relock_script_hexists, .field_suffix = "", \
    .message = RELOCK_MESSAGE_FREE

/* A lock in such a hash, without a queue in Redis. */
#define LIKE_REENTRANT \
    HASH, .unlock = &relock_script_unlock, .force_unlock = &relock_script_force_unlock

/* Such a lock that lock.lua acquires; that script recalls a hold that is cached elsewhere. */
#define BY_LOCK_LUA \
    LIKE_REENTRANT, .lock = &relock_script_lock, .is_handed_off = true, .is_cached = true

const struct relock_kind relock_kind_reentrant = {
    BY_LOCK_LUA,
    .channel = RELOCK_CHANNEL_LOCK,
};

/* A reentrant lock whose script gives each hold a token. So each has to be asked for in Redis. */
static const struct relock_kind fenced = {
    LIKE_REENTRANT,
    .lock = &relock_script_fenced_lock,
    .channel = RELOCK_CHANNEL_LOCK,
};

/* As a reentrant lock in Redis, so both exclude each other; but a release is not published. */
static const struct relock_kind spin = {
    BY_LOCK_LUA,
    .is_polled = true,
};

/*
 * A reentrant lock with a queue in Redis. Each waiter has a place of its own there, so each asks
 * for itself and has a channel of its own: only Redis knows their order.
 */
static const struct relock_kind fair = {
    HASH,
    .lock = &relock_script_fair_lock,
    .unlock = &relock_script_fair_unlock,
    .force_unlock = &relock_script_fair_force_unlock,
    .channel = RELOCK_CHANNEL_LOCK,
    .is_queued = true,
};

int relock_lock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &relock_kind_reentrant, name, lock);
}

int relock_fencedlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &fenced, name, lock);
}

int relock_spinlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &spin, name, lock);
}

int relock_fairlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &fair, name, lock);
}

/* ---- a string in Redis ---------------------------------------------------------------------- */

/*
 * Plain locks: a string with a random value, as the documentation of Redis describes it and other
 * libraries use it. Levels are counted here alone. Other libraries neither publish nor listen, so
 * waiters have Redis report changes of the key, and poll while it does not. With
 * RELOCK_ANNOUNCE_PLAIN clients of this library also publish their releases.
 */
#define PLAIN RELOCK_PLAIN_KIND(&relock_script_plain_unlock, &relock_script_plain_force_unlock)

static const struct relock_kind silent = {PLAIN};

static const struct relock_kind announced = {PLAIN, .channel = RELOCK_CHANNEL_LOCK};

const struct relock_kind *relock_kind_plain(const struct relock_client *client)
{
    return client && (client->options.flags & RELOCK_ANNOUNCE_PLAIN) ? &announced : &silent;
}

int relock_plainlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, relock_kind_plain(client), name, lock);
}

/* ---- settings of a kind --------------------------------------------------------------------- */

#define PAUSE_MAX_MS 3600000

#define PATIENCE_MIN_MS 1000
#define PATIENCE_MAX_MS 86400000

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
    lock->resource->set.pause.min_ms = (unsigned)min_ms;
    lock->resource->set.pause.max_ms = (unsigned)max_ms;
    relock_client_exit(lock->client, &guard);
    return RELOCK_OK;
}

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
    atomic_store(&lock->resource->set.patience_ms, (unsigned)patience_ms);
    relock_client_exit(lock->client, &guard);
    return RELOCK_OK;
}
