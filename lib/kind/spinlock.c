#include "lock/commands.h"
#include "lock/keys.h"
#include "lock/lock.h"

/* As a reentrant lock in Redis, so both exclude each other; but a release is not published. */
static const struct relock_kind spin = {
    .operations = &relock_command_operations,
    .lock = &relock_script_lock,
    .unlock = &relock_script_unlock,
    .renew = &relock_script_renew,
    .extend = &relock_script_extend,
    .inspect = &relock_script_inspect,
    .force_unlock = &relock_script_force_unlock,
    .message = RELOCK_MESSAGE_FREE,
    .field_suffix = "",
    .is_polled = true,
    .is_handed_off = true,
};

int relock_spinlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &spin, name, lock);
}
