/*
 * Cluster - a private Redis Cluster: masters and their replicas, each a support/server.h
 *
 * The nodes are numbered: at the start the masters are first and own equal shares of the slots,
 * then come the replicas, one of the first master, one of the second and so on. A role may change,
 * so ask cluster_owner() and cluster_replica() of cluster_view.h. To break a node, use
 * server_kill(), _pause(), _restart() and _resume() with node[i].server; then cluster_await() waits
 * until the others have replaced it. A master that comes back earlier has no data, unless it keeps
 * them.
 *
 * If a node refuses a command or takes too long, the test program ends with a line on stderr. With
 * RELOCK_TEST_TLS, every node also has a port with TLS, and the nodes use TLS among themselves.
 *
 * Threads: the one that started it; only the urls are for others.
 */
#ifndef RELOCK_TEST_CLUSTER_H
#define RELOCK_TEST_CLUSTER_H

#include "support/probe.h"
#include "support/proxy.h"
#include "support/server.h"

#include <stdint.h>

#define CLUSTER_MAX 12
#define CLUSTER_SLOTS 16384

/* From the death of a master until another node has replaced it. */
#define CLUSTER_FAILOVER_MS 30000

struct cluster_options {
    size_t masters;
    size_t replicas;          /* of each master */
    uint64_t node_timeout_ms; /* after so long without an answer a node counts as dead; 0: 1 s */
    bool keeps_data;
    bool tls;     /* also without RELOCK_TEST_TLS */
    bool proxies; /* before the nodes, for clients without TLS; needs `tls`, which the nodes use */
};

struct cluster_node {
    struct server *server;
    struct proxy *proxy;  /* NULL: none */
    char announced[2][8]; /* ports for clients, and for nodes */
    struct probe *probe;  /* to this node, whichever owns the key */
    char id[41];
};

struct cluster {
    struct cluster_options options;
    char node_timeout[24];
    size_t n;
    struct cluster_node node[CLUSTER_MAX];
    char url[256];       /* redis+cluster://... of the first three nodes */
    char tls_url[256];   /* rediss+cluster://..., or "" */
    const char *ca_file; /* for tls_ca_file */
};

/* Starts it and waits until it is ok. Without options: three masters with a replica each. NULL if
 * there is no program to start, or none with TLS. */
struct cluster *cluster_start(const struct cluster_options *options);

/* The same of one master, a server with `cluster` set, which cluster_stop() stops as well. */
struct cluster *cluster_start_on(struct server *server);

/* Takes NULL, returns NULL. */
struct cluster *cluster_stop(struct cluster *cluster);

/* Waits until all nodes that run are ok and agree on slots and roles, one that runs owns each slot,
 * and replicas are in sync. */
void cluster_await(struct cluster *cluster);

/* Restarts and resumes all nodes, abandons moves of slots, and waits as above. */
void cluster_mend(struct cluster *cluster);

/* Has a replica take over from its master, which runs. Returns the new master. */
size_t cluster_fail_over(struct cluster *cluster, size_t master);

/* Adds a master without slots, or a replica. Returns its number. */
size_t cluster_add(struct cluster *cluster);
size_t cluster_add_replica(struct cluster *cluster, size_t master);

/* Stops a node without slots and replicas, and has the others forget it. Later nodes move down by
 * one. The first node stays, because all have its certificates. */
void cluster_remove(struct cluster *cluster, size_t i);

/* Ends the program with this line on stderr if `condition` does not hold. */
void cluster_must(bool condition, const char *what);

/* Whether it runs and is not paused. */
bool cluster_is_up(const struct cluster *cluster, size_t i);

/* The port that the nodes tell each other. */
int cluster_port(const struct cluster *cluster, size_t i);

#endif
