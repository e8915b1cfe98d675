/*
 * Connection id - identifies a connection at the server, so that the server can kill it
 *
 * A command that was not answered may still run, for as long as the server keeps its end of the
 * connection. CLIENT KILL ends that. It finds the connection by the number that the server gave it
 * and by the address of the peer.
 *
 * After a restart the server counts from the beginning, and over a unix socket all peers have the
 * same address. Then number and address may belong to a stranger's connection. Therefore the
 * server's run id, new with each start, is part of the identity. No connection outlives its server:
 * if the run id has changed, nothing is left to kill.
 *
 * Threads: any; reference-counted.
 */
#ifndef RELOCK_CONN_ID_H
#define RELOCK_CONN_ID_H

#include "redis/server/reply.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_buffer;
struct relock_conn_id;
struct relock_node;
struct relock_server;

#define RELOCK_RUN_MAX 40

/* The connection leads to this server; the id is a reference to its node. `run`: the run id of the
 * server, "" if it does not tell. Returns NULL when out of memory. */
struct relock_conn_id *relock_conn_id_new(const struct relock_server *server, const char *run,
                                          uint64_t id, const char *address, size_t len);

/* The node of the server; NULL if it has none. */
struct relock_node *relock_conn_id_node(const struct relock_conn_id *conn_id);

/* The number that the server gave it. */
uint64_t relock_conn_id_number(const struct relock_conn_id *conn_id);

/* Whether the run id of its server is known. */
bool relock_conn_id_has_run(const struct relock_conn_id *conn_id);

/* Whether both connections lead to the same run of a server, as far as that is known. */
bool relock_conn_id_is_beside(const struct relock_conn_id *conn_id,
                              const struct relock_conn_id *other);

struct relock_conn_id *relock_conn_id_ref(struct relock_conn_id *conn_id);

/* Takes NULL. Returns NULL. */
struct relock_conn_id *relock_conn_id_unref(struct relock_conn_id *conn_id);

/*
 * Appends the command that kills the connection, to be sent over `killer`; NULL if that has no id.
 * Appends a PING instead if the connection is gone, or cannot be told from a stranger's.
 */
void relock_conn_id_kill(const struct relock_conn_id *conn_id, const struct relock_conn_id *killer,
                         struct relock_buffer *buffer);

/* The forms of the reply to that command: see reply.h. */
#define RELOCK_CONN_ID_KILL_FORMS (RELOCK_REPLY_INTEGER | RELOCK_REPLY_STATUS)

/* Reads the reply to that command. Returns true if the server killed the connection, or does not
 * have it; also if it lacks CLIENT KILL, which is logged once: then nothing can stop the old
 * command. Returns false if it refused for another reason: the caller has to try again. */
bool relock_conn_id_is_killed(const struct relock_server *server, const struct redisReply *reply);

#endif
