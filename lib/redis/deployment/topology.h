/*
 * Topology - the nodes of a deployment, and which of them holds a key now
 *
 * For each command, the locks ask it for the node of the key. They know nothing else of the
 * deployment.
 *
 * Nodes of a cluster come and go. The I/O thread alone frees a node: once that holds no keys, has
 * no work of the I/O thread, and no reference is left. So on the I/O thread a pointer to a node is
 * valid until its next iteration. Every other thread takes a reference before it waits or writes to
 * the log, and keeps it until it has last used the node, its lanes or its server. A connection id
 * is such a reference, too.
 *
 * Threads: any, unless a function says otherwise; new and free while no other thread uses the
 * topology.
 */
#ifndef RELOCK_TOPOLOGY_H
#define RELOCK_TOPOLOGY_H

#include "redis/server/command.h"
#include "redis/server/server.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_conn_id;
struct relock_lanes;
struct relock_loop;
struct relock_pipeline;
struct relock_pubsub;
struct relock_reading;
struct relock_script;
struct relock_topology;
struct relock_tracking;

/* One server, and the connections to it. The lanes serve the threads of the program. The pipeline
 * and the subscriptions belong to the I/O thread, which makes them when it first uses the node
 * (node_io.c). Init and deinit while no other thread uses the node. */
struct relock_node {
    /* constant */
    const struct relock_server *server;
    struct relock_lanes *lanes;
    struct relock_node *next; /* of the same topology */

    /* One for each pointer to the node that is kept, also by its connections. See topology.h. */
    atomic_uint refs;
    atomic_bool was_used; /* a reference was taken since the I/O thread last looked */

    atomic_bool is_doubted; /* it could not be reached when it was last used */
    bool is_mute; /* it did not answer the last question for the slots; of the thread that asks */

    /* used by the I/O thread; NULL until it first uses the node */
    struct relock_pipeline *pipeline;
    _Atomic(struct relock_pubsub *) pubsub; /* others read it with `reading` locked */

    /* For renewals that replicas have to acknowledge, see lock/hold/watchdog.c: WAIT holds up all
     * that stands behind it, so nothing else does. Used by the I/O thread; NULL: not needed. */
    struct relock_pipeline *confirmer;
    bool is_counting; /* WAIT is in flight there; likewise */

    struct relock_tracking *tracking; /* used by the I/O thread; NULL until it is wanted */
    bool wants_tracking;              /* likewise: see redis/io/io.h */
};

/* Connects nothing yet. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_node_init(struct relock_node *node, const struct relock_server *server,
                     unsigned n_lanes);

/* The connections of the I/O thread are closed already. */
void relock_node_deinit(struct relock_node *node);

struct relock_topology_ops {
    /* The node that holds this key now; NULL while none is known. For the I/O thread. */
    struct relock_node *(*find)(struct relock_topology *topology, struct relock_text key);

    void (*free)(struct relock_topology *topology);

    /* Those that follow are NULL for one server, whose node is never freed. */

    /* See relock_topology_take. */
    struct relock_node *(*take)(struct relock_topology *topology, struct relock_text key);

    /* See relock_topology_next. */
    struct relock_node *(*next)(struct relock_topology *topology, const struct relock_node *node);

    /* See relock_topology_remove. */
    bool (*remove)(struct relock_topology *topology, struct relock_node *node);

    /* Finds the nodes. Returns RELOCK_OK, or the failure, with its cause in `why`. */
    int (*connect)(struct relock_topology *topology, uint64_t deadline_ms,
                   char why[RELOCK_WHY_MAX]);

    /* Ends the threads. */
    void (*stop)(struct relock_topology *topology);

    /* See relock_topology_redirect. */
    struct relock_node *(*redirect)(struct relock_topology *topology,
                                    const struct relock_node *from, const char *error, bool *asks);

    /* For relock_topology_distrust, which is urgent, and relock_topology_recheck. */
    void (*recheck)(struct relock_topology *topology, bool is_urgent);

    /* See relock_topology_uses. */
    bool (*uses)(struct relock_topology *topology, const struct relock_node *node);
};

/* The common settings of the connections of the I/O thread. */
struct relock_topology_io {
    struct relock_loop *loop; /* NULL until the I/O thread is to start */
    const void *scope;        /* of their descriptors: the client */
    uint64_t answer_ms;       /* see relock_pipeline_new */
    uint64_t ping_ms;         /* see relock_pubsub_new */
    bool confirms;            /* nodes need a `confirmer` */
    void (*up)(void *arg);    /* a connection was made, or keys have other nodes now */
    /* A node reports changes of keys from now on, or no longer does. In both cases it has forgotten
     * all keys that it was to report. See redis/io/io.h. */
    void (*tracking)(void *arg, const struct relock_node *node, bool is_on);

    /* A node reports that this key has changed, `len` bytes; NULL: perhaps all keys have. On any
     * thread that reads the subscriptions. */
    void (*changed)(void *arg, const char *key, size_t len);
    void *arg;

    /* Opens the connections of the I/O thread to a node, unless they are open. Returns RELOCK_OK,
     * RELOCK_E_NOMEM. */
    int (*open)(struct relock_topology *topology, struct relock_node *node);

    /* Makes that for messages, unless it is there. Returns as `open`. */
    int (*hear)(struct relock_topology *topology, struct relock_node *node);
};

/* Each kind of topology embeds it. */
struct relock_topology {
    const struct relock_topology_ops *ops;
    _Atomic(struct relock_node *) nodes; /* all; only the I/O thread may follow them */
    struct relock_topology_io io;        /* constant while the I/O thread runs, like `reading` */
    struct relock_reading *reading;      /* of the connections for messages; see lib/redis/io */
    uint64_t look_ms;          /* when to look for nodes to free; used by the I/O thread */
    bool has_unused;           /* such a node could not be freed yet; used by the I/O thread */
    atomic_bool has_changed;   /* keys may have other nodes now; for the I/O thread */
    atomic_bool has_new_login; /* connections are to log in again; for the I/O thread */
    bool is_cluster;           /* constant: the keys of a lock must share a slot */
    atomic_bool is_sharded;    /* the channels of a lock belong to its slot */
    atomic_uint_least64_t half_moved_ms; /* when a node last said ASK: a slot is half moved; or 0 */
};

/* Makes the topology of one server. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_topology_new(const struct relock_server *server, unsigned n_lanes,
                        struct relock_topology **topology);

/* Finds the nodes, if there are several. Once. Returns RELOCK_OK, or the failure, with its cause in
 * `why`. */
int relock_topology_connect(struct relock_topology *topology, uint64_t deadline_ms,
                            char why[RELOCK_WHY_MAX]);

/* Ends its threads: it follows no change any more. Takes NULL. */
void relock_topology_stop(struct relock_topology *topology);

/* Its threads have ended, and the connections of the I/O thread are closed. Takes NULL. Returns
 * NULL. */
struct relock_topology *relock_topology_free(struct relock_topology *topology);

/* The node that holds this key now; NULL while none is known. Threads: the I/O thread. */
static inline struct relock_node *relock_topology_find(struct relock_topology *topology,
                                                       struct relock_text key)
{
    return topology->ops->find(topology, key);
}

/* As relock_topology_find, with a reference. Under no mutex. */
static inline struct relock_node *relock_topology_take(struct relock_topology *topology,
                                                       struct relock_text key)
{
    return topology->ops->take ? topology->ops->take(topology, key)
                               : topology->ops->find(topology, key);
}

/* Gives a reference back. Takes NULL. */
static inline void relock_topology_drop(const struct relock_topology *topology,
                                        struct relock_node *node)
{
    if (node && topology->ops->take)
        atomic_fetch_sub(&node->refs, 1);
}

/* The node after this one in the list of all, with a reference; the first after NULL. The reference
 * to `node` stays the caller's. Under no mutex. */
struct relock_node *relock_topology_next(struct relock_topology *topology,
                                         const struct relock_node *node);

/* Frees a node without connections, unless it holds keys or a reference is left. Threads: the I/O
 * thread. Returns whether it did. */
bool relock_topology_remove(struct relock_topology *topology, struct relock_node *node);

/*
 * The node `from` says in an error that another one has the key. Returns that node with a
 * reference; `*asks`: the command has to follow ASKING there, and the next one begins at `from`
 * again. Returns `from`, if another server is behind its address now. Under no mutex.
 *
 * Returns NULL if the error does not tell, or out of memory. Also if the command is to pause first:
 * after some redirections, which `n_redirects` counts, as several nodes may refer to each other;
 * and if not all keys of the script may be at that node yet. `script` is NULL for a command that no
 * ASK concerns.
 */
struct relock_node *relock_topology_redirect(struct relock_topology *topology,
                                             const struct relock_node *from, const char *error,
                                             const struct relock_script *script,
                                             unsigned *n_redirects, bool *asks);

/* This node was reached. */
static inline void relock_topology_trust(struct relock_node *node)
{
    if (atomic_load_explicit(&node->is_doubted, memory_order_relaxed))
        atomic_store(&node->is_doubted, false);
}

/* This node could not be reached, or is no master any more: others may have its keys. */
void relock_topology_distrust(struct relock_topology *topology, struct relock_node *node);

/* Where the command can run that a fence is about. */
enum relock_fence_place {
    RELOCK_FENCE_HERE,      /* at the node that has the key now: the fence is to be killed there */
    RELOCK_FENCE_ELSEWHERE, /* at relock_conn_id_node(), if the key comes back: to be killed there
                             */
    RELOCK_FENCE_NOWHERE,   /* that node holds no keys any more, or cannot be reached */
};

/* The key of the fence is at `node` now. The node of a fence is valid as long as the fence. */
enum relock_fence_place relock_topology_fence_place(struct relock_topology *topology,
                                                    const struct relock_conn_id *fence,
                                                    const struct relock_node *node);

/* Whether the node holds any keys. */
bool relock_topology_uses(struct relock_topology *topology, const struct relock_node *node);

/* ---- cluster --------------------------------------------------------------------------------- */

/*
 * Cluster - the topology of a Redis Cluster
 *
 * A thread of its own asks the nodes for the map of the slots: at the start, and whenever a call or
 * the I/O thread finds that the map is out of date. Until it has an answer, the old map stays in
 * use: a node redirects commands for slots that it does not have.
 *
 * A client chooses once, before it knows any node, whether waiters use sharded channels: all
 * processes that use a lock must agree, and so must the scripts and the subscriptions of this one.
 * A command may be older than that choice, so its form is written when a node is known: see
 * `publish_arg` of struct relock_call.
 *
 * Threads: as of every topology.
 */

/* `server` has the url of the cluster. It must outlive the topology. Returns RELOCK_OK,
 * RELOCK_E_NOMEM. */
int relock_cluster_new(const struct relock_server *server, unsigned n_lanes,
                       struct relock_topology **topology);

#endif
