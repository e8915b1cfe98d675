/*
 * Collect - acquires the members of a multi lock, all or none
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */
#ifndef RELOCK_COLLECT_H
#define RELOCK_COLLECT_H

#include "group/group.h"
#include "lock/hold/acquire.h"

/* One level of each member, as the operations `ask` and `nest`. */
void relock_collect(struct relock_acquire *acquire, struct relock_hold *hold,
                    struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex);

#endif
