/*
 * Wait - the wait of one call in the queue of a resource
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */
#ifndef RELOCK_WAIT_H
#define RELOCK_WAIT_H

#include "lock/acquire.h"

/*
 * Whether something other than a grant by Redis has ended the wait.
 *
 * Returns RELOCK_BUSY if the wait goes on; RELOCK_OK with `acquire->hold` after a hand-off,
 * RELOCK_AGAIN if the owner has got the lock by another thread, or the result of the call.
 */
int relock_wait_end(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* After relock_wait_end said RELOCK_BUSY: waits in the queue and asks Redis when it is this
 * waiter's turn. Returns as relock_ask, and RELOCK_TIMEOUT. */
int relock_wait_turn(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

#endif
