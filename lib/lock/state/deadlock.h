/*
 * Deadlock - finds a wait that would never end, because its owner would wait for itself
 *
 * An owner waits for a lock, and owners of this client hold that lock. They may wait for other
 * locks. If this leads back to the first owner, then each of them waits for the next one. A wait
 * looks for such a cycle once, when it is about to sleep for the first time. That is enough: an
 * owner that waits does nothing else, so the last wait of a cycle closes it, and finds it.
 *
 * The search ends at a lock that another process holds: this client does not know for what that
 * process waits. lib/deadlock follows such waits.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_DEADLOCK_H
#define RELOCK_DEADLOCK_H

#include "lock/state/resource.h"

/*
 * The waiter is about to sleep. Returns false if it would close a cycle: it must not wait, and
 * `why` has the cycle in words. Else other waits find it from now on, until its end.
 */
bool relock_deadlock_wait_begins(struct relock_client *client, struct relock_waiter *waiter,
                                 char why[RELOCK_WHY_MAX]) RELOCK_REQUIRES(client->mutex);

/* The wait is over. Does nothing if the other waits do not find it. */
void relock_deadlock_wait_ends(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);

#endif
