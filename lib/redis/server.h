/*
 * Server - the address of a Redis server, the credentials and the timeouts
 *
 * Threads: any; constant from init to deinit, except where a field says otherwise.
 */
#ifndef RELOCK_SERVER_H
#define RELOCK_SERVER_H

#include "base/log.h"
#include "redis/url.h"

#include <relock.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct relock_resolver;
struct relock_tls_context;

/* Room for a text about a failure, with the address of the server. */
#define RELOCK_WHY_MAX 256

/* Changed by any thread. */
struct relock_counts {
    atomic_uint warned; /* bits of enum relock_extra whose lack was logged */
    atomic_uint_fast64_t reconnects;
};

struct relock_server {
    struct relock_url url;
    char *name;        /* CLIENT SETNAME, or NULL */
    bool name_is_ours; /* the library made it up, so a server may refuse it without consequence */
    char *label;       /* the address, for messages: without the password */
    struct relock_resolver *resolver; /* of its host; NULL for a path */
    struct relock_tls_context *tls;   /* NULL: connections are not encrypted */
    uint64_t connect_timeout_ms;
    uint64_t command_timeout_ms;
    const struct relock_log *log;
    struct relock_counts *counts;
};

/*
 * Takes url, user, password, timeouts and TLS files from the options, in which no timeout may be 0.
 * `id` follows the colon in the name of the connections.
 *
 * Returns as relock_url_parse or relock_tls_context_new, and the log has the cause.
 */
int relock_server_init(struct relock_server *server, const struct relock_options *options,
                       const char *id, const struct relock_log *log);
void relock_server_deinit(struct relock_server *server);

#endif
