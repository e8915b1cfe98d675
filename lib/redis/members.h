/*
 * Members - the masters of a cluster, and which of them has each slot
 *
 * A node is made when the cluster first names its address, and lives as long as the members, even
 * if it has no slot any more: a call may be using it.
 *
 * Threads: any; init and deinit while no other thread uses it.
 */
#ifndef RELOCK_MEMBERS_H
#define RELOCK_MEMBERS_H

#include "base/thread.h"
#include "redis/slot.h"
#include "redis/slot_map.h"
#include "redis/topology.h"

struct relock_member;

struct relock_members {
    /* constant */
    const struct relock_server *cluster; /* with what all nodes have in common */
    unsigned n_lanes;                    /* of each node */
    _Atomic(struct relock_node *) *list; /* to which new nodes are added */

    _Atomic(struct relock_node *) slots[RELOCK_SLOTS]; /* NULL: not known yet */
    struct relock_mutex mutex;
    struct {
        struct relock_member *by_address;
    } guarded; /* by mutex */
};

void relock_members_init(struct relock_members *members, const struct relock_server *cluster,
                         unsigned n_lanes, _Atomic(struct relock_node *) *list);
void relock_members_deinit(struct relock_members *members);

/* The node at this address, which may be a new one; NULL when out of memory. */
struct relock_node *relock_members_at(struct relock_members *members,
                                      const struct relock_address *address);

static inline struct relock_node *relock_members_of_slot(struct relock_members *members,
                                                         unsigned slot)
{
    return atomic_load_explicit(&members->slots[slot], memory_order_acquire);
}

/* Gives the slots `first` to `last` to the node. Returns whether another node had one of them. */
bool relock_members_assign(struct relock_members *members, unsigned first, unsigned last,
                           struct relock_node *node);

/* Whether the node has a slot. */
bool relock_members_has_slot(struct relock_members *members, const struct relock_node *node);

#endif
