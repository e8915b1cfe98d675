/*
 * Link - a command connection that blocks
 *
 * It connects when it is first needed and again after a failure. Whatever fails, or comes too late,
 * makes it useless, and whoever drives it closes it then: a reply that is still under way must not
 * be taken for the next one's.
 *
 * Threads: the one that drives it.
 */
#ifndef RELOCK_LINK_H
#define RELOCK_LINK_H

#include "redis/server.h"
#include "redis/wire.h"

#include <stdatomic.h>

struct relock_link {
    const struct relock_server *server;
    struct relock_wire wire;
    struct relock_origin *origin; /* of the connection; NULL when the server does not say */
    uint64_t timeout_ms;          /* of the socket, as it is set now */
    uint64_t used_ms;             /* when it was last waited on */
    bool connected_once;
    size_t n_sent;                   /* of what was last to be sent, so much went out */
    atomic_uint_fast64_t reconnects; /* connections made again; read by any thread */
};

void relock_link_init(struct relock_link *link, const struct relock_server *server);
void relock_link_deinit(struct relock_link *link);

/*
 * Makes sure that there is a connection.
 *
 * Returns RELOCK_OK, RELOCK_E_CONN, RELOCK_E_AUTH, RELOCK_E_SERVER, RELOCK_E_NOMEM; `wire.why`
 * says why.
 */
int relock_link_connect(struct relock_link *link, uint64_t deadline_ms);

/* Sends what was appended to `wire.out`. Returns RELOCK_OK, RELOCK_E_CONN, RELOCK_E_NOMEM. */
int relock_link_send(struct relock_link *link, uint64_t deadline_ms);

/* Waits for the next reply, which is the caller's. Returns as relock_link_send. */
int relock_link_receive(struct relock_link *link, uint64_t deadline_ms, struct redisReply **reply);

/* The next reply if it has been read already. Returns RELOCK_AGAIN when not. */
int relock_link_next(struct relock_link *link, struct redisReply **reply);

/* Closes the connection; the link can connect again. */
void relock_link_close(struct relock_link *link);

#endif
