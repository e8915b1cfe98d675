/*
 * Members - the masters of a cluster, and which of them has each slot
 *
 * A node is made when the cluster first names its address. When it has no slot any more, the I/O
 * thread removes it, if no reference is left. A reference begins under the mutex, or as a copy of
 * another.
 *
 * Threads: any; init and deinit while no other thread uses it; of_slot and remove: the I/O thread.
 */
#ifndef RELOCK_MEMBERS_H
#define RELOCK_MEMBERS_H

#include "base/thread.h"
#include "redis/deployment/slot_map.h"
#include "redis/deployment/topology.h"

/* The most nodes at a time: a server that keeps naming new addresses must not use up the memory. */
#define RELOCK_MEMBERS_MAX 1024

struct relock_member;

/* The node that has reported an address. An address without a host means that node. */
struct relock_origin {
    const char *host; /* its name in the url or in the cluster */
    const char *ip;   /* the same in digits; "" if that is not known */
};

struct relock_members {
    /* constant */
    const struct relock_server *cluster; /* has the settings that all nodes share */
    unsigned n_lanes;                    /* of each node */
    _Atomic(struct relock_node *) *list; /* gets the new nodes */

    _Atomic(struct relock_node *) slots[RELOCK_SLOTS]; /* NULL: not known yet */
    struct relock_mutex mutex;
    struct {
        struct relock_member *by_address;
        unsigned n;
        bool is_full; /* a node was refused, which was logged; none was removed since */
    } guarded;        /* by mutex */
};

void relock_members_init(struct relock_members *members, const struct relock_server *cluster,
                         unsigned n_lanes, _Atomic(struct relock_node *) *list);
void relock_members_deinit(struct relock_members *members);

/* This node, which is a member, as an origin. */
struct relock_origin relock_members_origin(const struct relock_node *node);

/* The node at this address, which may be a new one, with a reference. Returns RELOCK_OK,
 * RELOCK_E_NOMEM; RELOCK_E_SERVER, which it logs once, if there are too many. */
int relock_members_at(struct relock_members *members, const struct relock_address *address,
                      const struct relock_origin *origin, struct relock_node **node);

static inline struct relock_node *relock_members_of_slot(struct relock_members *members,
                                                         unsigned slot)
{
    return atomic_load_explicit(&members->slots[slot], memory_order_acquire);
}

/* The node that has the slot, with a reference; NULL: not known yet. */
struct relock_node *relock_members_take(struct relock_members *members, unsigned slot);

/* The node after this one in the list, with a reference; the first after NULL. */
struct relock_node *relock_members_next(struct relock_members *members,
                                        const struct relock_node *node);

/* Fills `nodes` with those that have slots, each with a reference. Returns their number. */
unsigned relock_members_with_slots(struct relock_members *members,
                                   struct relock_node *nodes[RELOCK_MEMBERS_MAX]);

static inline void relock_members_drop(struct relock_node *node)
{
    atomic_fetch_sub(&node->refs, 1);
}

/* Frees a node that has no slot and no reference. Returns false if it has either. */
bool relock_members_remove(struct relock_members *members, struct relock_node *node);

/* Gives slots to the node at the address of the range, and returns as relock_members_at. */
int relock_members_assign(struct relock_members *members, const struct relock_slot_range *range,
                          const struct relock_origin *origin, struct relock_node **node);

/* Whether the node, which is a member, has a slot. */
bool relock_members_has_slot(const struct relock_node *node);

#endif
