/*
 * Plain locks: a string with a random value, as the documentation of Redis describes it and others
 * take it. Levels are counted here alone. Who else wants the lock neither publishes nor listens, so
 * whoever waits polls, and with RELOCK_ANNOUNCE_PLAIN is told of releases by its like besides.
 */
#include "lock/keys.h"
#include "lock/lock.h"

#define PLAIN                                                                                   \
    .lock = &relock_script_plain_lock, .unlock = &relock_script_plain_unlock,                   \
    .renew = &relock_script_plain_renew, .extend = &relock_script_plain_renew,                  \
    .inspect = &relock_script_plain_inspect, .force_unlock = &relock_script_plain_force_unlock, \
    .message = RELOCK_MESSAGE_FREE, .has_token_only = true, .is_polled = true,                  \
    .is_passed_on = true

static const struct relock_kind silent = {PLAIN};

static const struct relock_kind announced = {PLAIN, .channel = RELOCK_CHANNEL_LOCK};

int relock_plainlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    bool announces = client && (client->options.flags & RELOCK_ANNOUNCE_PLAIN);

    return relock_lock_make(client, announces ? &announced : &silent, name, lock);
}
