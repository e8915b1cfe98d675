/*
 * Proofs - after each look, decides which waits of this client close a cycle for certain
 *
 * At the end of a look, each recorded wait of this client is searched in its graph. A wait that
 * closes a cycle as its victim gets a proof, which the next looks continue or drop. The wait is
 * refused when its proof is complete; wait_graph.h says when that is. The next look follows soon
 * while there are proofs, and later otherwise.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */
#ifndef RELOCK_PROOFS_H
#define RELOCK_PROOFS_H

#include "lock/deadlock/wait_graph.h"
#include "lock/state/client.h"
#include "lock/state/resource.h"

/* Between two looks that find nothing, at most. */
#define RELOCK_PROOFS_LATER_MS 1000

/* Whether looks follow this wait: Redis has its record, and the wait has not ended. */
bool relock_proofs_concern(const struct relock_waiter *waiter);

/* A look has found this graph: refuses waits, and sets the time of the next look. */
void relock_proofs_conclude(struct relock_client *client, struct relock_graph *graph)
    RELOCK_REQUIRES(client->mutex);

/* Drops the proof of this wait. Any thread. */
void relock_proofs_drop(struct relock_waiter *waiter);

#endif
