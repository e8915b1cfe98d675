/*
 * Ask - one attempt of a waiter at the first level
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */
#ifndef RELOCK_ASK_H
#define RELOCK_ASK_H

#include "lock/hold/acquire.h"

/*
 * The head of the queue asks, or a reader for the first time.
 *
 * Returns RELOCK_OK with `acquire->hold`; RELOCK_BUSY if another owner has the lock; RELOCK_AGAIN
 * if this owner has got it meanwhile, by another thread; or the failure of asking: then nothing is
 * held, and a grant that Redis may have made is settled.
 */
int relock_ask(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/*
 * The two steps of relock_ask(), before and after the operation `ask`. The first step returns the
 * hold to ask for, or NULL when out of memory, and sets the core's fields of the answer. `began_ms`
 * is the `sent_ms` that it set.
 */
struct relock_hold *relock_ask_begin(struct relock_acquire *acquire, struct relock_answer *answer)
    RELOCK_REQUIRES(acquire->client->mutex);
int relock_ask_end(struct relock_acquire *acquire, struct relock_hold *hold,
                   const struct relock_answer *answer, uint64_t began_ms)
    RELOCK_REQUIRES(acquire->client->mutex);

#endif
