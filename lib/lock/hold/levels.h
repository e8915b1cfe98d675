/*
 * Levels - the commands of a hold that goes on: a level more, a level less, another lease
 *
 * While such a command runs the hold is busy, and other commands of the same owner wait. Other
 * threads do not wait: they may lose the hold, release it, or change how its lease is kept. If the
 * servers have to learn this, the end of the command tells them.
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */
#ifndef RELOCK_LEVELS_H
#define RELOCK_LEVELS_H

#include "lock/hold/acquire.h"
#include "lock/state/client.h"
#include "lock/state/hold.h"

/*
 * Makes the hold busy. The command gets a reference of its own, and requests a lease of `lease_ms`,
 * granted or not.
 */
void relock_owner_command_begin(struct relock_hold *hold, uint64_t lease_ms);

/* The hold is not busy any more. The command's reference stays. Calls the operation `keep` if
 * `keeping` has changed. May unlock the mutex meanwhile. */
void relock_owner_command_end(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* A loss was taken up: releases the hold on servers that may still have it. If the hold is busy,
 * the end of its command does so. Unlocks the mutex meanwhile. */
void relock_owner_command_release_lost(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/*
 * Adds one level for the owner of this hold.
 *
 * Returns RELOCK_OK with `acquire->hold`, or the result of the call.
 */
int relock_levels_add(struct relock_acquire *acquire, struct relock_hold *hold)
    RELOCK_REQUIRES(acquire->client->mutex);

/* The two steps of relock_levels_add, before and after the operation `nest`. A failure of the first
 * is the result of the call; it sets what the core puts into the answer. */
int relock_levels_add_begin(struct relock_acquire *acquire, struct relock_hold *hold,
                            struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex);
int relock_levels_add_end(struct relock_acquire *acquire, struct relock_hold *hold,
                          const struct relock_answer *answer)
    RELOCK_REQUIRES(acquire->client->mutex);

/* Sends Redis the new count after a release that leaves levels. Returns as relock_release. */
int relock_levels_remove(struct relock_lock *lock, struct relock_hold *hold, uint64_t deadline_ms)
    RELOCK_REQUIRES(lock->client->mutex);

/* The two steps of relock_levels_remove, before and after the operation `release`. */
void relock_levels_begin(struct relock_hold *hold, uint64_t lease_ms);
int relock_levels_remove_end(struct relock_lock *lock, struct relock_hold *hold,
                             const struct relock_answer *answer)
    RELOCK_REQUIRES(lock->client->mutex);

/* Returns as relock_extend. */
int relock_levels_extend(struct relock_lock *lock, struct relock_hold *hold, uint64_t lease_ms,
                         uint64_t deadline_ms) RELOCK_REQUIRES(lock->client->mutex);

/* The call that collects other locks has ended: a fixed lease of the owner's hold, if there is one,
 * is no longer renewed. */
void relock_levels_stop_keeping(struct relock_lock *lock, uint64_t owner)
    RELOCK_REQUIRES(lock->client->mutex);

#endif
