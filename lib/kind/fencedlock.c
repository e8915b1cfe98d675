#include "lock/commands.h"
#include "lock/keys.h"
#include "lock/lock.h"

/* A reentrant lock whose script gives each hold a token. So each has to be asked for in Redis. */
static const struct relock_kind fenced = {
    .operations = &relock_command_operations,
    .lock = &relock_script_fenced_lock,
    .unlock = &relock_script_unlock,
    .renew = &relock_script_renew,
    .extend = &relock_script_extend,
    .inspect = &relock_script_inspect,
    .force_unlock = &relock_script_force_unlock,
    .channel = RELOCK_CHANNEL_LOCK,
    .message = RELOCK_MESSAGE_FREE,
    .field_suffix = "",
};

int relock_fencedlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &fenced, name, lock);
}
