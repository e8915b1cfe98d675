/*
 * Node I/O - the connections of the I/O thread to the nodes of a topology
 *
 * Threads: the I/O thread; start and stop while that does not run.
 */
#ifndef RELOCK_NODE_IO_H
#define RELOCK_NODE_IO_H

#include "redis/deployment/topology.h"

struct relock_peer;

/* Opens one node, so that the thread has a connection when it first needs one. Returns RELOCK_OK,
 * RELOCK_E_NOMEM. */
int relock_node_io_start(struct relock_topology *topology, const struct relock_topology_io *io);

/* Frees the connections. Takes NULL. */
void relock_node_io_stop(struct relock_topology *topology);

/* The node that holds this key now, or the connections to it; opens them first. NULL while no node
 * is known, or when out of memory. */
struct relock_node *relock_node_io_open(struct relock_topology *topology, struct relock_text key);
struct relock_pipeline *relock_node_io_pipeline(struct relock_topology *topology,
                                                struct relock_text key);
struct relock_pubsub *relock_node_io_pubsub(struct relock_topology *topology,
                                            struct relock_text key);

/*
 * If keys have other nodes now, moves the channels there and calls `up`. If the credentials have
 * changed, makes the connections again. Frees nodes that hold no keys and that nothing has used for
 * a while. So the I/O thread calls it where it has no pointer to a node, under no mutex. Returns
 * when to call it again; RELOCK_NEVER: only after a change.
 */
uint64_t relock_node_io_follow(struct relock_topology *topology);

/* Turns tracking on where it is wanted. Under no mutex, before the thread waits. */
void relock_node_io_track(struct relock_topology *topology);

/* Where no call can connect, gives calls the connection of the pipeline. Under no mutex. */
void relock_node_io_share(struct relock_topology *topology);

/* Writes to all sockets at once, instead of when the loop next finds them writable. */
void relock_node_io_flush(struct relock_topology *topology);

/* In each turn: reads messages where no other thread does any more. `is_needed`: the I/O thread
 * needs messages itself, so others must not read. */
void relock_node_io_attend(struct relock_topology *topology, bool is_needed);

/* The connection whose messages a thread that waits may read itself: direct.h. NULL in a cluster,
 * where the channels of locks have several. Threads: any, while the I/O thread runs. */
struct relock_pubsub *relock_node_io_shared(struct relock_topology *topology);

/* Ends the connections that lead to this peer, also those of the lanes. */
void relock_node_io_cut(struct relock_topology *topology, const struct relock_peer *peer);

#endif
