/*
 * Redask - one attempt of a red lock: all servers are asked at the same time
 *
 * The first quorum decides. Servers that are unreachable are asked again while there is time.
 *
 * A refused waiter stands in the line of the sequencer if that gave it a place. There it sleeps
 * until it is told that it is its turn. If it is first and told nothing for a while, or has no
 * place, it listens to the releases on all servers.
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */
#ifndef RELOCK_REDASK_H
#define RELOCK_REDASK_H

#include "group/tally.h"
#include "lock/hold/acquire.h"

/* The operation `ask`. */
void relock_redask(struct relock_acquire *acquire, struct relock_hold *hold,
                   struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex);

#endif
