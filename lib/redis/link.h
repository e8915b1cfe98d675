/*
 * Link - a command connection that blocks
 *
 * It connects when it is first needed and again after a failure. A failure makes it useless, and
 * its driver closes it then. A deadline alone does not: connecting goes on with the next call, and
 * the driver decides what to do about a reply that is late.
 *
 * Threads: the one that drives it.
 */
#ifndef RELOCK_LINK_H
#define RELOCK_LINK_H

#include "redis/dial.h"
#include "redis/login.h"
#include "redis/wire.h"

#include <stdatomic.h>

enum relock_link_state {
    RELOCK_LINK_CLOSED,
    RELOCK_LINK_DIALING,
    RELOCK_LINK_LOGGING_IN,
    RELOCK_LINK_READY,
};

struct relock_link {
    const struct relock_server *server;
    enum relock_link_state state;
    struct relock_dial dial;   /* while dialing */
    struct relock_login login; /* while logging in */
    uint64_t connect_by_ms;    /* while connecting: then it has failed */
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

/* In a forked child: closes the descriptor, and no more. */
void relock_link_abandon(struct relock_link *link);

/*
 * Makes sure that there is a connection.
 *
 * Returns RELOCK_OK; RELOCK_AGAIN at the deadline, and the next call goes on connecting, for
 * `connect_timeout_ms` in all; RELOCK_REPLICA, RELOCK_E_CONN, RELOCK_E_AUTH, RELOCK_E_SERVER,
 * RELOCK_E_UNSUPPORTED, RELOCK_E_NOMEM. `wire.why` says why.
 */
int relock_link_connect(struct relock_link *link, uint64_t deadline_ms);

/* Sends what was appended to `wire.out`. Returns RELOCK_OK, RELOCK_E_CONN, RELOCK_E_NOMEM. */
int relock_link_send(struct relock_link *link, uint64_t deadline_ms);

/* Waits for the next reply, which is the caller's. Returns as relock_link_send, and RELOCK_AGAIN at
 * the deadline: the reply may come yet. */
int relock_link_receive(struct relock_link *link, uint64_t deadline_ms, struct redisReply **reply);

/* The next reply if it has been read already. Returns RELOCK_AGAIN when not. */
int relock_link_next(struct relock_link *link, struct redisReply **reply);

/* Closes the connection; the link can connect again. */
void relock_link_close(struct relock_link *link);

#endif
