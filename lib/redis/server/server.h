/*
 * Server - the address of a Redis server, the credentials and the timeouts
 *
 * Threads: any; constant from init to deinit, except where a field says otherwise.
 */
#ifndef RELOCK_SERVER_H
#define RELOCK_SERVER_H

#include "base/log.h"

#include <relock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct relock_node;
struct relock_resolver;
struct relock_sentinels;
struct relock_tls_context;

/* ---- url ------------------------------------------------------------------------------------- */

/*
 * Url - the parts of a server's url
 *
 * Threads: any.
 */

/* More hosts in one url are an error. */
#define RELOCK_URL_HOSTS_MAX 16

struct relock_url_host {
    char *name; /* or address */
    uint16_t port;
};

/* How the nodes of a cluster publish and subscribe. */
enum relock_url_pubsub {
    RELOCK_URL_PUBSUB_AUTO, /* sharded if the servers can do it */
    RELOCK_URL_PUBSUB_SHARDED,
    RELOCK_URL_PUBSUB_PLAIN,
};

/* The parts of a url. Parts that it lacks are NULL. */
struct relock_url {
    char *host; /* TCP */
    uint16_t port;
    bool tls;   /* rediss:// */
    char *path; /* unix socket, instead of host and port */
    /* instead of both: the sentinels, or nodes of the cluster to ask first */
    struct relock_url_host hosts[RELOCK_URL_HOSTS_MAX];
    unsigned n_hosts;
    char *master; /* what the sentinels call it */
    bool cluster;
    enum relock_url_pubsub pubsub; /* of a cluster */
    char *user;
    char *password;
    unsigned db;
};

/* ---- server ---------------------------------------------------------------------------------- */

/* With which connections log in; constant. They may change while a connection that logs in reads
 * them, without a mutex. So old ones stay in memory as long as the struct relock_server. */
struct relock_credentials {
    char *user;     /* NULL: the default user */
    char *password; /* NULL: connections do not log in */
    struct relock_credentials *older;
};

/* Copies. NULL when out of memory. */
struct relock_credentials *relock_credentials_new(const char *user, const char *password);

/* Frees older ones, too. Takes NULL. */
void relock_credentials_free(struct relock_credentials *credentials);

/* Room for a text about a failure, with the address of the server. */
#define RELOCK_WHY_MAX 256

/* Changed by any thread. */
struct relock_counts {
    atomic_uint warned;   /* bits of enum relock_extra whose lack was logged */
    atomic_uint switches; /* failovers that sentinels have reported */
    atomic_uint_fast64_t reconnects;
    /* for new connections; NULL: those of the url */
    _Atomic(struct relock_credentials *) credentials;
    atomic_uint n_open, n_up; /* connections of the I/O thread; those that are up */
};

struct relock_server {
    struct relock_url url;
    char *name;                         /* CLIENT SETNAME, or NULL */
    bool is_sentinel;                   /* it has to be a Sentinel; others are refused */
    bool never_spins;                   /* threads sleep at once when they wait for its replies */
    bool may_be_replica;                /* it is asked for no lock, so a replica will do */
    char *label;                        /* the address, for messages: without the password */
    struct relock_resolver *resolver;   /* knows its addresses; NULL for a path or a cluster */
    struct relock_sentinels *sentinels; /* the source of the resolver; NULL: the url names none */
    struct relock_tls_context *tls;     /* NULL: connections are not encrypted */
    uint64_t connect_timeout_ms;
    uint64_t command_timeout_ms;
    const struct relock_log *log;
    const void *scope; /* of the descriptors of its connections: the client */
    struct relock_counts *counts;
    struct relock_node *node; /* the cluster's node with this server; NULL: no node is freed */
    atomic_uint *node_refs;   /* the `refs` of `node`; NULL if `node` is */
};

/*
 * Takes url, user, password, timeouts and TLS files from the options, in which no timeout may be 0.
 * `id` follows the colon in the name of the connections. If the url names sentinels, the server has
 * no resolver yet: relock_sentinels_attach makes it.
 *
 * Returns as relock_url_parse or relock_tls_context_new, and the log has the cause.
 */
int relock_server_init(struct relock_server *server, const struct relock_options *options,
                       const char *id, const struct relock_log *log);
void relock_server_deinit(struct relock_server *server);

/* The user and the password of new connections. Lives as long as the server. */
struct relock_credentials relock_server_credentials(const struct relock_server *server);

/* From now on, connections log in with these, which the server frees. One thread at a time. */
void relock_server_set_credentials(const struct relock_server *server,
                                   struct relock_credentials *credentials);

/*
 * A node of the cluster that `cluster` describes. It shares all but address and certificate with
 * that, which has to outlive it.
 *
 * Returns RELOCK_OK, RELOCK_E_NOMEM.
 */
int relock_server_init_node(struct relock_server *server, const struct relock_server *cluster,
                            const char *host, uint16_t port);
void relock_server_deinit_node(struct relock_server *server);

#endif
