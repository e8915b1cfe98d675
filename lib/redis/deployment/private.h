/*
 * Private - what the files of lib/redis/deployment share, and nobody else
 *
 * What a header of this folder says of a module and its threads holds for its part here, too.
 */
#ifndef RELOCK_DEPLOYMENT_PRIVATE_H
#define RELOCK_DEPLOYMENT_PRIVATE_H

#include "redis/deployment/slot_map.h"
#include "redis/deployment/topology.h"
#include "redis/lane/sync_conn.h"
#include "redis/server/command.h"
#include "redis/server/peer.h"
#include "redis/server/server.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_member;

/* ---- topology -------------------------------------------------------------------------------- */

/* A command had no answer at its deadline. The node may only be slow, but if others have its keys
 * by now, calls with short deadlines would never find out. */
void relock_topology_recheck(struct relock_topology *topology);

/* ---- slot map -------------------------------------------------------------------------------- */

#define RELOCK_SLOTS 16384

/* The slots `first` to `last` are at the node. */
struct relock_slot_range {
    unsigned first, last;
    struct relock_address master;
};

/* Reads the range at `index` of the reply to CLUSTER SLOTS. Returns false if it cannot be used: the
 * node may not know the address itself, and a server may send anything. */
bool relock_slot_map_read(const struct redisReply *reply, size_t index,
                          struct relock_slot_range *range);

/* ---- members --------------------------------------------------------------------------------- */

/*
 * Members - the masters of a cluster, and which of them has each slot
 *
 * A node is made when the cluster first names its address. When it has no slot any more, the I/O
 * thread removes it, if no reference is left. A reference begins under the mutex, or as a copy of
 * another.
 *
 * Threads: any; init and deinit while no other thread uses it; of_slot and remove: the I/O thread.
 */

/* The most nodes at a time: a server that keeps naming new addresses must not use up the memory. */
#define RELOCK_MEMBERS_MAX 1024

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

/* ---- slot survey ----------------------------------------------------------------------------- */

/*
 * Slot survey - asks the nodes of a cluster for the map of the slots, until one has answered
 *
 * It asks one after the other: first the node that the last MOVED has named, then the masters that
 * could be reached, then the nodes of the url, then the other masters. After three nodes without an
 * answer, those of the url are next. Each survey begins with another master, because one that is
 * cut off from the others still answers, with an old map.
 *
 * Threads: run from one, and it blocks; moved_slot is set by any.
 */

/* Asks one node of the cluster for its map, and blocks meanwhile. */
struct relock_slot_query {
    struct relock_server server; /* as the node's; a replica may answer, too */
    struct relock_sync_conn conn;
    struct relock_question question; /* `stops` and `deadline_ms`: set by the caller */

    /* the answer */
    char ip[RELOCK_PEER_IP_MAX];      /* of the node, in digits */
    char not_sharded[RELOCK_WHY_MAX]; /* why it has no sharded channels; "": it has them */
    char why[RELOCK_WHY_MAX];         /* the cause of a failure */
};

/*
 * Returns RELOCK_OK and the map, which the caller frees; or as relock_sync_conn_connect,
 * RELOCK_E_CONN at the deadline, and RELOCK_E_SERVER, RELOCK_E_AUTH if the server refuses.
 */
int relock_slot_query_ask(struct relock_slot_query *query, const struct relock_server *server,
                          struct redisReply **map);

#define RELOCK_SLOT_NONE (-1)

/* Takes the map that a node has answered with. Returns RELOCK_OK; or the failure, with its cause in
 * the query, and the next node is asked. */
typedef int relock_slot_survey_fn(void *arg, struct relock_slot_query *query,
                                  const struct redisReply *map);

struct relock_slot_survey {
    /* constant */
    const struct relock_server *cluster; /* of the url */
    struct relock_members *members;
    relock_slot_survey_fn *take;
    void *arg;
    const atomic_bool *stops;
    struct relock_server seeds[RELOCK_URL_HOSTS_MAX];
    unsigned n_seeds;

    atomic_int moved_slot; /* the slot of the last MOVED, or RELOCK_SLOT_NONE */

    /* of the thread that runs it */
    struct relock_slot_query query;                /* of the node that is being asked */
    struct relock_node *nodes[RELOCK_MEMBERS_MAX]; /* during a survey: references */
    unsigned n_nodes;
    unsigned n_rounds;
};

/* Makes the seeds; the caller has set `cluster`, `members`, `take`, `arg` and `stops`, at which a
 * survey ends early. Returns RELOCK_OK, RELOCK_E_NOMEM; deinit also after a failure. */
int relock_slot_survey_init(struct relock_slot_survey *survey);
void relock_slot_survey_deinit(struct relock_slot_survey *survey);

/* Returns RELOCK_OK when a map was taken. Otherwise the failure of the first node, or of the first
 * one with a failure that lasts, and its cause in `why`. */
int relock_slot_survey_run(struct relock_slot_survey *survey, uint64_t deadline_ms,
                           char why[RELOCK_WHY_MAX]);

#endif
