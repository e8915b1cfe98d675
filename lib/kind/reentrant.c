#include "kind/reentrant.h"

#include "lock/commands.h"
#include "lock/keys.h"
#include "lock/lock.h"

const struct relock_kind relock_kind_reentrant = {
    .operations = &relock_command_operations,
    .lock = &relock_script_lock,
    .unlock = &relock_script_unlock,
    .renew = &relock_script_renew,
    .extend = &relock_script_extend,
    .inspect = &relock_script_inspect,
    .force_unlock = &relock_script_force_unlock,
    .channel = RELOCK_CHANNEL_LOCK,
    .message = RELOCK_MESSAGE_FREE,
    .field_suffix = "",
    .is_handed_off = true,
};

int relock_lock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &relock_kind_reentrant, name, lock);
}
