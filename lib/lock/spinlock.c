#include "lock/spinlock.h"

#include "base/ident.h"
#include "lock/keys.h"
#include "lock/lock.h"

#define MAX_PAUSE_MS 128

/* As a reentrant lock in Redis, so both exclude each other; but nobody is told of a release. */
static const struct relock_kind spin = {
    .lock = &relock_script_lock,
    .unlock = &relock_script_unlock,
    .renew = &relock_script_renew,
    .extend = &relock_script_extend,
    .inspect = &relock_script_inspect,
    .force_unlock = &relock_script_force_unlock,
    .message = RELOCK_MESSAGE_FREE,
    .field_suffix = "",
    .is_polled = true,
    .is_passed_on = true,
};

uint64_t relock_spinlock_pause_ms(uint64_t pause_ms)
{
    /* Longer on the average each time, and spread: those who were refused together part. */
    uint64_t most_ms = pause_ms * 3;

    if (most_ms > MAX_PAUSE_MS)
        most_ms = MAX_PAUSE_MS;
    return 1 + relock_ident_jitter((uint32_t)most_ms);
}

int relock_spinlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &spin, name, lock);
}
