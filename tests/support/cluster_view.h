/*
 * Cluster view - what the nodes of a cluster believe and have, by the numbers of support/cluster.h
 *
 * Threads: that of the cluster.
 */
#ifndef RELOCK_TEST_CLUSTER_VIEW_H
#define RELOCK_TEST_CLUSTER_VIEW_H

#include "support/cluster.h"

#define CLUSTER_VIEW_MAX_OPEN 16

struct cluster_view {
    signed char owner[CLUSTER_SLOTS]; /* of each slot; -1: none */
    signed char master[CLUSTER_MAX];  /* of each node, itself if it is one; -1: not known */
    uint64_t epoch[CLUSTER_MAX];      /* of the configuration of each master; 0 for other nodes */
    int open[CLUSTER_VIEW_MAX_OPEN];  /* slots that this node imports or gives away */
    size_t n_open;
};

/* The view of one node. False if it does not answer. */
bool cluster_view_of(const struct cluster *cluster, size_t i, struct cluster_view *view);

/* The view of the first that is up. */
void cluster_view_any(const struct cluster *cluster, struct cluster_view *view);

/* For wait_until(), of a struct cluster: that each node knows each other one, and all of which
 * cluster_await() speaks. */
bool cluster_knows_itself(void *cluster);
bool cluster_is_settled(void *cluster);

/* The next five are for a cluster whose nodes agree. */
int cluster_slot(struct cluster *cluster, const char *key);
size_t cluster_owner(struct cluster *cluster, int slot);

/* Of this master, one that runs. */
size_t cluster_replica(struct cluster *cluster, size_t master);

/* To the owner of a key. */
struct probe *cluster_probe(struct cluster *cluster, const char *key);

/* Waits until this replica has all that its master had when this was called. A WAIT of a probe
 * would not: it waits for what the probe has written. */
void cluster_await_copy(struct cluster *cluster, size_t master);

/* The errors that a node has returned. */
long long cluster_n_refusals(struct cluster *cluster, size_t i);

/* Waits until a node has returned `n` more errors. */
bool cluster_wait_refusals(struct cluster *cluster, size_t i, long long n);

#endif
