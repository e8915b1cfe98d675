/*
 * Cluster - the topology of a Redis Cluster
 *
 * A thread of its own asks the nodes for the map of the slots: at the start, and whenever a call or
 * the I/O thread finds that the map is out of date. Until it has an answer, the old map stays in
 * use: a node redirects commands for slots that it does not have.
 *
 * A client chooses once, before it knows any node, whether waiters use sharded channels: all
 * processes that use a lock must agree, and so must the scripts and the subscriptions of this one.
 *
 * Threads: as topology.h says.
 */
#ifndef RELOCK_CLUSTER_H
#define RELOCK_CLUSTER_H

#include "redis/deployment/slot_survey.h"
#include "redis/deployment/topology.h"

/* `server` has the url of the cluster. It must outlive the topology. Returns RELOCK_OK,
 * RELOCK_E_NOMEM. */
int relock_cluster_new(const struct relock_server *server, unsigned n_lanes,
                       struct relock_topology **topology);

#endif
