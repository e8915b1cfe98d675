/*
 * Tracking - a node reports changes of keys that its pipeline has read
 *
 * The server sends each report once, over the connection of the subscriptions, for keys that a
 * call with a `tracker` has read over the pipeline. So it needs both connections: CLIENT TRACKING
 * names the second one over the first. When either is made anew, tracking is off until the server
 * has agreed again, and what was to be reported is forgotten.
 *
 * A user without the right, or a server or a proxy without the command, is not asked again before
 * one of the connections is new. That is logged once.
 *
 * Threads: the I/O thread, under no mutex, unless a function says otherwise.
 */
#ifndef RELOCK_TRACKING_H
#define RELOCK_TRACKING_H

#include "redis/deployment/topology.h"

/* The node is to track. Also under a mutex: it begins with the next step. */
static inline void relock_tracking_want(struct relock_node *node)
{
    node->wants_tracking = true;
}

/* Whether a call with a `tracker` that is sent now is tracked. Also under a mutex. */
bool relock_tracking_is_on(const struct relock_node *node);

/* Does what has become due since the last step. Calls `io.tracking` of the topology when tracking
 * begins or ends. The node is open. */
void relock_tracking_step(struct relock_topology *topology, struct relock_node *node);

/* The node needs it no more. No command of the pipeline may be in flight. */
void relock_tracking_end(struct relock_node *node);

/* As relock_tracking_end, when the I/O thread has ended: calls nothing. */
void relock_tracking_free(struct relock_node *node);

#endif
