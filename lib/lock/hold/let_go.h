/*
 * Let go - ends a hold in any state, without a caller that waits for the release
 *
 * If Redis may still have the hold, the I/O thread releases it there.
 *
 * Threads: with the mutex of the client locked.
 */
#ifndef RELOCK_LET_GO_H
#define RELOCK_LET_GO_H

#include "lock/state/client.h"
#include "lock/state/hold.h"

/* The hold is no longer needed, whatever its state. May unlock the mutex meanwhile, and drops the
 * reference of the owner. */
void relock_let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* A renewal of a live hold failed: it is repeated at `again_ms`. A cached hold is let go, because
 * nobody needs it. The caller arms, and has a reference. The I/O thread. */
void relock_let_go_suspect(struct relock_client *client, struct relock_hold *hold,
                           uint64_t again_ms) RELOCK_REQUIRES(client->mutex);

#endif
