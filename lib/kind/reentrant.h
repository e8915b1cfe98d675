/*
 * Reentrant lock - the kind that relock_lock_new makes: Redisson's RLock
 *
 * Threads: any; it is constant.
 */
#ifndef RELOCK_REENTRANT_H
#define RELOCK_REENTRANT_H

#include "lock/call/commands.h"
#include "lock/state/keys.h"
#include "lock/state/lock.h"

/* Shared by all kinds that are a hash in Redis, in the format of Redisson's RLock. */
#define RELOCK_KIND_HASH                                                     \
    .operations = &relock_command_operations, .renew = &relock_script_renew, \
    .extend = &relock_script_extend, .inspect = &relock_script_inspect,      \
    .look = &relock_script_hexists, .field_suffix = "", .message = RELOCK_MESSAGE_FREE

/* And those of them that have no queue in Redis. */
#define RELOCK_KIND_LIKE_REENTRANT \
    RELOCK_KIND_HASH, .unlock = &relock_script_unlock, .force_unlock = &relock_script_force_unlock

/* And those of them that lock.lua acquires: it recalls a hold that is cached elsewhere. */
#define RELOCK_KIND_BY_LOCK_LUA                                                     \
    RELOCK_KIND_LIKE_REENTRANT, .lock = &relock_script_lock, .is_handed_off = true, \
                                .is_cached = true

extern const struct relock_kind relock_kind_reentrant;

#endif
