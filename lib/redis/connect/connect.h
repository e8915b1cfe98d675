/*
 * Connect - makes a connection, and moves bytes over it
 *
 * What lib/redis/connect offers to every connection, whether a thread waits for it or the loop:
 * dial it, log in, then send and receive by its wire. conn_id.h is how a connection is ended at the
 * server, and explain.h says what an error means.
 */
#ifndef RELOCK_CONNECT_H
#define RELOCK_CONNECT_H

#include "redis/connect/conn_id.h"
#include "redis/server/command.h"
#include "redis/server/resolve.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_conn_id;
struct relock_lookup;
struct relock_tls;
struct relock_wire_limit;

/* ---- wire ------------------------------------------------------------------------------------ */

/*
 * Wire - a connected socket, its output buffer and its reader of replies
 *
 * The reader is that of hiredis. Functions block if the socket does. Writing uses send(2), because
 * a server that is gone must not raise SIGPIPE in a thread of the program. The bytes on the socket
 * may be encrypted; those in the buffers never are.
 *
 * Threads: its user; send_beside by another thread.
 */

/* A connected socket. */
struct relock_socket {
    int fd;
    struct relock_tls *tls; /* NULL: it is not encrypted */
};

/* Ends a connection, and tells the server if that is possible at once. */
void relock_socket_close(struct relock_socket socket);

struct relock_wire {
    const char *label;
    int fd;                 /* -1 when closed */
    struct relock_tls *tls; /* NULL: not encrypted */
    bool has_received;      /* since it was opened */
    const char *stranger;   /* what the first bytes say of a server that does not speak RESP */
    const char *awaited;    /* the command of the login that has no answer; NULL: not logging in */
    bool takes_long; /* set before it is opened: a reply may be as long as the map of a cluster */
    struct redisReader *reader;
    struct relock_wire_limit *limit; /* the arrays that the reader accepts */
    size_t n_unfinished;             /* bytes received since the last complete reply */
    struct relock_buffer out;        /* append here, then flush */
    size_t sent;                     /* how many bytes of `out` were written */
    char why[RELOCK_WHY_MAX];        /* the last failure */
};

/* `label` precedes each cause of a failure. */
void relock_wire_init(struct relock_wire *wire, const char *label);

/* Closes the socket and frees the buffers. */
void relock_wire_deinit(struct relock_wire *wire);

/* Takes over a connected socket. Returns RELOCK_OK; RELOCK_E_NOMEM after closing it. */
int relock_wire_open(struct relock_wire *wire, struct relock_socket socket);
void relock_wire_close(struct relock_wire *wire);

/* As close, but leaves the socket open and returns it. */
struct relock_socket relock_wire_release(struct relock_wire *wire);

/* Writes once. Returns RELOCK_OK when `out` is empty; RELOCK_AGAIN; RELOCK_E_CONN, RELOCK_E_NOMEM.
 * After a failure, what the server has sent can still be read: it may have the reason. */
int relock_wire_flush(struct relock_wire *wire);

/*
 * Writes `out` at once and empties it, while the user of the wire reads: another thread, which
 * alone touches `out` meanwhile. Not with TLS. `*n_sent` says how many bytes were written.
 *
 * Returns RELOCK_OK; RELOCK_AGAIN: the socket did not take all; RELOCK_E_CONN, RELOCK_E_NOMEM.
 * After a failure the connection ends, and the user meets that.
 */
int relock_wire_send_beside(struct relock_wire *wire, size_t *n_sent);

/* Reads once. Returns RELOCK_OK when something came; RELOCK_AGAIN; RELOCK_E_CONN, RELOCK_E_NOMEM;
 * before the first reply also RELOCK_E_AUTH: the server rejects our certificate. */
int relock_wire_fill(struct relock_wire *wire);

/* Reads what has come, with the results of relock_wire_fill. Does not block. */
int relock_wire_fill_at_once(struct relock_wire *wire);

/* Whether the server has closed the connection, or sends what nobody has asked for. Does not block.
 */
bool relock_wire_has_ended(struct relock_wire *wire);

/* Returns RELOCK_OK with a reply; RELOCK_AGAIN when none is complete; RELOCK_E_CONN for bytes that
 * are no RESP, or more than any reply has; RELOCK_E_NOMEM. */
int relock_wire_take(struct relock_wire *wire, struct redisReply **reply);

/* The connection is of no use any more, for the reason `what`: returns RELOCK_E_CONN. */
int relock_wire_fail(struct relock_wire *wire, const char *what);

/* Whether all received bytes were taken. Others would be mistaken for the next reply. */
bool relock_wire_is_quiet(const struct relock_wire *wire);

/* ---- dial ------------------------------------------------------------------------------------ */

/*
 * Dial - connects to the server without blocking
 *
 * Each time, it looks up the server anew and races its addresses: if an attempt fails, the next one
 * begins at once; if it gets no answer, the next one begins after a while (RFC 8305). Attempts run
 * beside each other until one has connected. Then the others are closed. With TLS, the winner also
 * has to complete the handshake; if it does not, the others race again. Its user waits for `fd`,
 * until `deadline_ms` at the latest, and steps again: the I/O thread waits in libev, a calling
 * thread in poll(2).
 *
 * Threads: its user.
 */

/* Connects to one of several addresses; the first that answers wins. All sockets are in one epoll
 * set, so that the user waits for one descriptor. */
struct relock_race {
    const void *scope;                 /* of its descriptors */
    struct relock_addresses addresses; /* to try, in order; filled in by its user */
    int sockets[RELOCK_ADDRESSES_MAX]; /* of the attempts, which are at the first addresses */
    unsigned n_sockets;
    int fd;               /* the epoll set: readable when an attempt has ended; -1: no attempt */
    uint64_t next_ms;     /* when the next attempt begins */
    uint64_t deadline_ms; /* to wait until then for `fd` */
    int err;              /* of the last attempt that failed; 0: there was no answer in time */
};

enum relock_dial_state {
    RELOCK_DIAL_IDLE,
    RELOCK_DIAL_RESOLVING,  /* the host is looked up: `fd` becomes readable */
    RELOCK_DIAL_CONNECTING, /* to the addresses: `fd` becomes readable */
    RELOCK_DIAL_SECURING,   /* the TLS handshake: `fd` becomes readable or writable */
    RELOCK_DIAL_PAUSING,    /* the queue of the unix socket is full: there is no `fd` */
};

/* Room for the longest address and its port, and the words around them. */
#define RELOCK_DIAL_MASTER_MAX 112

struct relock_dial {
    const struct relock_server *server;
    enum relock_dial_state state;
    int fd;               /* to wait for; -1: wait for `deadline_ms` alone */
    uint64_t deadline_ms; /* of the current state */
    uint64_t limit_ms;    /* of all attempts together */

    struct relock_lookup *lookup;        /* used in RESOLVING */
    struct relock_race race;             /* used in CONNECTING; has the addresses that are left */
    char master[RELOCK_DIAL_MASTER_MAX]; /* "; a sentinel says ...", or "" */
    uint64_t pause_ms;                   /* the last pause */
    struct relock_tls *tls;              /* used in SECURING */
    int result;               /* RELOCK_E_AUTH when an address was rejected for a certificate */
    char why[RELOCK_WHY_MAX]; /* the last failure; one with RELOCK_E_AUTH stays */
};

void relock_dial_init(struct relock_dial *dial, const struct relock_server *server);

/* Whether to wait until `fd` is writable; else until it is readable. */
bool relock_dial_wants_to_write(const struct relock_dial *dial);

/* Whether it tries the addresses that it has found, and has not connected yet. */
bool relock_dial_has_addresses(const struct relock_dial *dial);

/* Whether a sentinel has reported a failover since the addresses were found. To be called from
 * CONNECTING on; also after the dial has connected. */
bool relock_dial_is_outdated(const struct relock_dial *dial);

/* Ends the attempt in any state; the dial can be used again. */
void relock_dial_end(struct relock_dial *dial);

/*
 * Starts the attempt, or continues after `fd` became ready or `deadline_ms` passed.
 *
 * Returns RELOCK_OK when connected: `*socket` belongs to the caller and is non-blocking;
 * RELOCK_AGAIN to wait; RELOCK_E_CONN when no address could be reached, or the addresses are
 * outdated; RELOCK_E_AUTH when one was rejected for its certificate, or for ours; RELOCK_E_NOMEM;
 * the answers of sentinels, as relock_sentinels_attach says. A failure has its cause in `why`.
 */
int relock_dial_step(struct relock_dial *dial, uint64_t now_ms, struct relock_socket *socket);

/* ---- login ----------------------------------------------------------------------------------- */

/*
 * Login - authenticates a new connection and prepares it
 *
 * It sends AUTH, HELLO, CLIENT SETNAME, SELECT, INFO and CLIENT INFO, as far as they are needed, in
 * one piece. INFO and CLIENT INFO give the connection id. INFO also tells the version; a server
 * that does not tell it counts as new enough. HELLO tells the role of the server: a Sentinel, a
 * node of a cluster and a replica take no locks. HELLO needs no ACL right. If it does not tell the
 * role, because the server or a proxy lacks it, a second piece asks INFO or ROLE; a server that
 * does not answer these either counts as a master. A server that is to be a Sentinel must be one.
 *
 * Threads: the user of the connection.
 */

enum relock_login_step {
    RELOCK_LOGIN_AUTH,
    RELOCK_LOGIN_HELLO,
    RELOCK_LOGIN_NAME,
    RELOCK_LOGIN_DB,
    RELOCK_LOGIN_SERVER,
    RELOCK_LOGIN_INFO,
    RELOCK_LOGIN_ROLE, /* sent alone, after the other replies */
    RELOCK_LOGIN_DONE,
};

/* The role that the server tells; all false if it tells none. */
struct relock_login_role {
    bool is_standalone;
    bool is_cluster; /* a node of one; as HELLO says: INFO may be that of a node behind a proxy */
    bool is_sentinel;
    bool is_replica;
};

struct relock_login {
    const struct relock_server *server;
    struct relock_credentials credentials;
    enum relock_login_step step; /* the command whose reply comes next */
    struct relock_login_role role;
    bool asks_role;                 /* HELLO has not told it */
    bool has_info;                  /* the server answers INFO */
    char run[RELOCK_RUN_MAX + 1];   /* the run id of the server; "" if it has not told */
    struct relock_conn_id *conn_id; /* NULL if the server does not tell it */
    char why[RELOCK_WHY_MAX];
};

/* Appends the commands. */
void relock_login_begin(struct relock_login *login, const struct relock_server *server,
                        struct relock_buffer *buffer);

/*
 * Takes the next reply. When `step` becomes RELOCK_LOGIN_ROLE, it has appended a further command,
 * for the caller to send.
 *
 * Returns RELOCK_OK after the last reply; RELOCK_AGAIN when more are to come; RELOCK_REPLICA;
 * RELOCK_E_UNSUPPORTED for a Sentinel, a node of a cluster or a version that is too old, and for
 * anything else in the place of a Sentinel; RELOCK_E_AUTH, RELOCK_E_SERVER, RELOCK_E_NOMEM;
 * RELOCK_E_CONN when the server refuses for now. A failure has its cause in `why`.
 */
int relock_login_take(struct relock_login *login, const struct redisReply *reply,
                      struct relock_buffer *buffer);

/* Returns the command whose reply comes next. */
const char *relock_login_command(const struct relock_login *login);

/* Drops the connection id. */
void relock_login_end(struct relock_login *login);

#endif
