/*
 * Node - one server, and the connections to it
 *
 * The lanes serve the threads of the program. The pipeline and the subscriptions belong to the I/O
 * thread, which makes them when it first uses the node (node_io.h).
 *
 * Threads: as each field says; init and deinit while no other thread uses the node.
 */
#ifndef RELOCK_NODE_H
#define RELOCK_NODE_H

#include "redis/server/server.h"

#include <stdatomic.h>

struct relock_lanes;
struct relock_pipeline;
struct relock_pubsub;
struct relock_tracking;

struct relock_node {
    /* constant */
    const struct relock_server *server;
    struct relock_lanes *lanes;
    struct relock_node *next; /* of the same topology */

    /* One for each pointer to the node that is kept, also by its connections. See topology.h. */
    atomic_uint refs;
    atomic_bool was_used; /* a reference was taken since the I/O thread last looked */

    atomic_bool is_doubted; /* it could not be reached when it was last used */
    bool is_mute; /* it did not answer the last question for the slots; of the thread that asks */

    /* used by the I/O thread; NULL until it first uses the node */
    struct relock_pipeline *pipeline;
    struct relock_pubsub *pubsub;

    /* For renewals that replicas have to acknowledge, see lock/hold/confirm.h: WAIT holds up all
     * that stands behind it, so nothing else does. Used by the I/O thread; NULL: not needed. */
    struct relock_pipeline *confirmer;
    bool is_counting; /* WAIT is in flight there; likewise */

    struct relock_tracking *tracking; /* used by the I/O thread; NULL until it is wanted */
    bool wants_tracking;              /* likewise: see tracking.h */
};

/* Connects nothing yet. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_node_init(struct relock_node *node, const struct relock_server *server,
                     unsigned n_lanes);

/* The connections of the I/O thread are closed already. */
void relock_node_deinit(struct relock_node *node);

/* In a forked child: closes the descriptors of the lanes and does nothing else. */
void relock_node_abandon(struct relock_node *node);

#endif
