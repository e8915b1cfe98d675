/*
 * Wire - bytes to and from one server
 *
 * A socket, what is still to go out, and hiredis' reader for what came in. It blocks when the
 * socket does. It writes with send(2), for a server that is gone must not raise SIGPIPE in a
 * thread of the program.
 *
 * Threads: the one that drives it.
 */
#ifndef RELOCK_WIRE_H
#define RELOCK_WIRE_H

#include "redis/command.h"
#include "redis/server.h"

struct redisReply;
struct redisReader;
struct relock_wire_limit;

struct relock_wire {
    int fd; /* -1 when closed */
    struct redisReader *reader;
    struct relock_wire_limit *limit; /* which arrays the reader takes */
    size_t n_unfinished;             /* bytes that have come since the last whole reply */
    struct relock_buffer out;        /* append here, then flush */
    size_t sent;                     /* of `out` */
    char why[RELOCK_WHY_MAX];        /* the last failure */
};

void relock_wire_init(struct relock_wire *wire);

/* Closes and frees what it has. */
void relock_wire_deinit(struct relock_wire *wire);

/* Takes over a connected socket. Returns RELOCK_OK; RELOCK_E_NOMEM, the socket being closed. */
int relock_wire_open(struct relock_wire *wire, int fd);
void relock_wire_close(struct relock_wire *wire);

/* Sends once. Returns RELOCK_OK when all is out; RELOCK_AGAIN; RELOCK_E_CONN, RELOCK_E_NOMEM. */
int relock_wire_flush(struct relock_wire *wire);

/* Reads once. Returns RELOCK_OK when something came; RELOCK_AGAIN; RELOCK_E_CONN, RELOCK_E_NOMEM.
 */
int relock_wire_fill(struct relock_wire *wire);

/* Returns RELOCK_OK with a reply; RELOCK_AGAIN when there is none yet; RELOCK_E_CONN when what came
 * is no RESP, or more than any reply has, RELOCK_E_NOMEM. */
int relock_wire_take(struct relock_wire *wire, struct redisReply **reply);

/* Whether nothing has come that was not taken: what there is would answer the next command. */
bool relock_wire_is_quiet(const struct relock_wire *wire);

#endif
