/*
 * Topology - the nodes of a deployment, and which of them holds a key now
 *
 * The locks ask it for the node of a key, each time anew, and know nothing else of the deployment.
 * A node lives as long as its topology, so nobody has to hold it.
 *
 * Threads: find from any; new and free while no other thread uses the topology.
 */
#ifndef RELOCK_TOPOLOGY_H
#define RELOCK_TOPOLOGY_H

#include "redis/command.h"
#include "redis/node.h"

#include <stdatomic.h>

struct relock_loop;
struct relock_topology;

struct relock_topology_ops {
    /* The node that holds this key now. */
    struct relock_node *(*find)(struct relock_topology *topology, struct relock_text key);

    void (*free)(struct relock_topology *topology);
};

/* What the connections of the I/O thread have in common. */
struct relock_topology_io {
    struct relock_loop *loop; /* NULL until the I/O thread is to start */
    uint64_t answer_ms;       /* see relock_pipeline_new */
    uint64_t ping_ms;         /* see relock_pubsub_new */
    void (*up)(void *arg);    /* see relock_pipeline_up_fn */
    void *arg;
};

/* Each kind of topology embeds it. */
struct relock_topology {
    const struct relock_topology_ops *ops;
    _Atomic(struct relock_node *) nodes; /* all; none is ever removed */
    struct relock_topology_io io;        /* constant while the I/O thread runs */
};

/* One server, whatever its address is. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_topology_new(const struct relock_server *server, unsigned n_lanes,
                        struct relock_topology **topology);

/* The connections of the I/O thread are closed already. Takes NULL. Returns NULL. */
struct relock_topology *relock_topology_free(struct relock_topology *topology);

/* In a forked child: closes the descriptors of all lanes and does nothing else. */
void relock_topology_abandon(struct relock_topology *topology);

static inline struct relock_node *relock_topology_find(struct relock_topology *topology,
                                                       struct relock_text key)
{
    return topology->ops->find(topology, key);
}

#endif
