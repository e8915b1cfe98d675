/*
 * Url - the parts of a server's url
 *
 * Threads: any.
 */
#ifndef RELOCK_URL_H
#define RELOCK_URL_H

#include <stdbool.h>
#include <stdint.h>

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

/*
 * Reads redis://[[user]:password@]host[:port][/db], unix:///path[?db=n],
 * redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/master[/db], and
 * redis+cluster://[[user]:password@]host[:port][,host[:port]...][/][?pubsub=auto|sharded|plain].
 * ?db=n may stand for /db. With rediss for redis, connections are encrypted. valkey and valkeys are
 * the same as redis and rediss, and a scheme has no case. User, password, path and master may hold
 * %xx.
 *
 * Returns RELOCK_OK, RELOCK_E_INVALID, RELOCK_E_NOMEM. `*why` is the cause; it repeats no part of
 * the url.
 */
int relock_url_parse(struct relock_url *url, const char *text, const char **why);
void relock_url_deinit(struct relock_url *url);

#endif
