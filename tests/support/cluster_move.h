/*
 * Cluster move - a slot and its keys go from one master of a cluster to another
 *
 * Between open and close the old owner serves the keys that it still has, and answers ASK for
 * others, or TRYAGAIN if a command names keys on both sides.
 *
 * Threads: that of the cluster.
 */
#ifndef RELOCK_TEST_CLUSTER_MOVE_H
#define RELOCK_TEST_CLUSTER_MOVE_H

#include "support/cluster.h"

/* The whole move; then waits until all nodes know. */
void cluster_move(struct cluster *cluster, int slot, size_t to);

/* Its steps. The last one tells all masters and does not wait. */
void cluster_move_open(struct cluster *cluster, int slot, size_t to);
void cluster_move_key(struct cluster *cluster, const char *key, size_t to);
void cluster_move_keys(struct cluster *cluster, int slot, size_t to);
void cluster_move_close(struct cluster *cluster, int slot, size_t to);

/* Whether this server can move a slot at once: Valkey 9.0 and Redis 8.4 can. */
bool cluster_can_move_at_once(struct probe *probe);

/* The whole move, in which the slot is never half moved: until one moment the old owner has all of
 * it. Then waits until all nodes know. */
void cluster_move_at_once(struct cluster *cluster, int slot, size_t to);

#endif
