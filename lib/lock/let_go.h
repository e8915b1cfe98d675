/*
 * Let go - ends a hold in any state, without a caller that waits for the release
 *
 * If Redis may still have the hold, the I/O thread releases it there.
 *
 * Threads: with the mutex of the client locked.
 */
#ifndef RELOCK_LET_GO_H
#define RELOCK_LET_GO_H

#include "lock/client.h"
#include "lock/hold.h"

/* The hold is no longer needed, whatever its state. May unlock the mutex meanwhile, and drops the
 * reference of the owner. */
void relock_let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

#endif
