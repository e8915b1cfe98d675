/*
 * Wait - the wait of one call in the queue of a resource
 *
 * A blocking call takes all steps in relock_wait_turn(). An asynchronous call takes them one by one
 * (async_acquire.c).
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */
#ifndef RELOCK_WAIT_H
#define RELOCK_WAIT_H

#include "lock/hold/acquire.h"

/*
 * Whether something other than a grant by Redis has ended the wait.
 *
 * Returns RELOCK_BUSY if the wait goes on; RELOCK_OK with `acquire->hold` after a hand-off,
 * RELOCK_AGAIN if the owner has got the lock by another thread, or the result of the call.
 */
int relock_wait_end(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* The next step of the call. */
enum relock_wait_step {
    RELOCK_WAIT_ENDS,   /* it returns the result */
    RELOCK_WAIT_LOOKS,  /* it looks again at once */
    RELOCK_WAIT_SLEEPS, /* until its gate opens, or until a time */
    RELOCK_WAIT_ASKS,   /* Redis */
};

/* After relock_wait_end said RELOCK_BUSY: sets `*until_ms` if the call sleeps, and `*result` if it
 * ends. */
enum relock_wait_step relock_wait_next(struct relock_acquire *acquire, uint64_t *until_ms,
                                       int *result) RELOCK_REQUIRES(acquire->client->mutex);

/* The call has slept. */
void relock_wait_woken(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* The call has asked Redis, with that result. Returns what the result means for the wait. */
int relock_wait_asked(struct relock_acquire *acquire, int result)
    RELOCK_REQUIRES(acquire->client->mutex);

/* After relock_wait_end said RELOCK_BUSY: waits in the queue and asks Redis when it is this
 * waiter's turn. Returns as relock_ask, and RELOCK_TIMEOUT. */
int relock_wait_turn(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

#endif
