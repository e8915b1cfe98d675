/*
 * Ask - one attempt of a waiter at the first level
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */
#ifndef RELOCK_ASK_H
#define RELOCK_ASK_H

#include "lock/acquire.h"

/*
 * The head of the queue asks, or a reader for the first time.
 *
 * Returns RELOCK_OK with `acquire->hold`; RELOCK_BUSY if another owner has the lock; RELOCK_AGAIN
 * if this owner has got it meanwhile, by another thread; or the failure of asking: then nothing is
 * held, and a grant that Redis may have made is settled.
 */
int relock_ask(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

#endif
