/*
 * Plain locks: a string with a random value, as the documentation of Redis describes it and other
 * libraries use it. Levels are counted here alone. Other libraries neither publish nor listen, so
 * waiters have Redis report changes of the key, and poll while it does not. With
 * RELOCK_ANNOUNCE_PLAIN clients of this library also publish their releases.
 */
#include "lock/call/commands.h"
#include "lock/state/keys.h"
#include "lock/state/lock.h"

#define PLAIN                                                                                   \
    .lock = &relock_script_plain_lock, .unlock = &relock_script_plain_unlock,                   \
    .renew = &relock_script_plain_renew, .extend = &relock_script_plain_renew,                  \
    .inspect = &relock_script_plain_inspect, .force_unlock = &relock_script_plain_force_unlock, \
    .look = &relock_script_getrange, .message = RELOCK_MESSAGE_FREE, .has_token_only = true,    \
    .is_polled = true, .is_watched = true, .is_handed_off = true,                               \
    .operations = &relock_command_operations

static const struct relock_kind silent = {PLAIN};

static const struct relock_kind announced = {PLAIN, .channel = RELOCK_CHANNEL_LOCK};

int relock_plainlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    bool announces = client && (client->options.flags & RELOCK_ANNOUNCE_PLAIN);

    return relock_lock_make(client, announces ? &announced : &silent, name, lock);
}
