/*
 * Owner command - one command about a hold, sent for its owner: a further level, an extension
 *
 * While it runs the hold is busy, and the owner's next command waits. Other threads do not wait:
 * they may lose the hold, release it, or change how its lease is kept. If the servers have to learn
 * this, the end of the command tells them.
 *
 * Threads: with the mutex of the client locked.
 */
#ifndef RELOCK_OWNER_COMMAND_H
#define RELOCK_OWNER_COMMAND_H

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

#endif
