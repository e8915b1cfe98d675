/*
 * Nodes - the faults of a cluster
 *
 * All nodes together are one place: a fault is over when they agree again, but for the move of a
 * slot, which is over when both masters know. Masters fail gently, so that no renewal is lost, for
 * which the checker would find two certain holders.
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

/* The master of this name is killed, stopped or replaced by its replica. */
void nodes_fail(struct cluster *cluster, enum fault_kind kind, const char *name);

/* The slot of a name on its way to another master. */
struct nodes_move {
    int lock, slot;
    size_t to;
    bool is_open; /* half moved */
};

/* The slot is half moved from now on: the keys that it has go now or in the end. If the servers can
 * move a slot at once, it may be at the other master when this returns. */
void nodes_begin_move(struct cluster *cluster, struct nodes_move *move, unsigned *seed);
void nodes_end_move(struct cluster *cluster, struct nodes_move *move);

#endif
