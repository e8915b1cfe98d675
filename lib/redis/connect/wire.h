/*
 * Wire - a connected socket, its output buffer and its reader of replies
 *
 * The reader is that of hiredis. Functions block if the socket does. Writing uses send(2), because
 * a server that is gone must not raise SIGPIPE in a thread of the program. The bytes on the socket
 * may be encrypted; those in the buffers never are.
 *
 * Threads: its user.
 */
#ifndef RELOCK_WIRE_H
#define RELOCK_WIRE_H

#include "redis/connect/tls.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

struct redisReply;
struct redisReader;
struct relock_wire_limit;

/* A connected socket. */
struct relock_socket {
    int fd;
    struct relock_tls *tls; /* NULL: it is not encrypted */
};

/*
 * Begins or continues the handshake of TLS, without blocking. Receives once, and sends once.
 *
 * Returns RELOCK_OK; RELOCK_AGAIN: call again when the socket is ready; RELOCK_E_AUTH,
 * RELOCK_E_CONN, RELOCK_E_NOMEM.
 */
int relock_socket_shake(struct relock_socket socket);

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

#endif
