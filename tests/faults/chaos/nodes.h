/*
 * Nodes - the faults of a cluster
 *
 * All nodes together are one place: a fault is over when they agree again. Masters fail gently, so
 * that no renewal is lost, for which the checker would find two certain holders.
 *
 * Threads: that of the cluster.
 */
#ifndef RELOCK_TEST_CHAOS_NODES_H
#define RELOCK_TEST_CHAOS_NODES_H

#include "schedule.h"
#include "support/cluster.h"

/* The `nth` fault of this kind. That of a network hits the proxy of one node. */
void nodes_break(struct cluster *cluster, enum fault_kind kind, size_t nth, unsigned *seed);

/* Mends the networks. */
void nodes_mend(struct cluster *cluster);

#endif
