/*
 * Kinds - the kinds of lock with one side: reentrant, fenced, spin, fair and plain
 *
 * Threads: any; all is constant.
 */
#ifndef RELOCK_KINDS_H
#define RELOCK_KINDS_H

#include "lock/call/call.h"
#include "lock/state/keys.h"
#include "lock/state/kind.h"

/* That of relock_lock_new: Redisson's RLock. */
extern const struct relock_kind relock_kind_reentrant;

/* Plain locks, and those that do as another library does when they free a lock. */
#define RELOCK_PLAIN_KIND(unlocks, forces)                                                       \
    .lock = &relock_script_plain_lock, .unlock = (unlocks), .renew = &relock_script_plain_renew, \
    .renew_many = &relock_script_plain_renew_many, .extend = &relock_script_plain_renew,         \
    .inspect = &relock_script_plain_inspect, .force_unlock = (forces),                           \
    .look = &relock_script_getrange, .message = RELOCK_MESSAGE_FREE, .has_token_only = true,     \
    .is_polled = true, .is_watched = true, .is_handed_off = true,                                \
    .operations = &relock_command_operations

/* That of relock_plainlock_new. `client` may be NULL. */
const struct relock_kind *relock_kind_plain(const struct relock_client *client);

#endif
