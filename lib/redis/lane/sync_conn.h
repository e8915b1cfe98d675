/*
 * Synchronous connection - a connection whose functions block until a deadline
 *
 * It connects when it is first needed, and again after its user has closed it because of a failure.
 * A deadline is no failure: the next call continues to connect, and the user handles a late reply.
 *
 * Threads: its user, one at a time; cut from any. On a lane, another thread may send over its wire
 * while the user receives: relock_wire_send_beside().
 */
#ifndef RELOCK_SYNC_CONN_H
#define RELOCK_SYNC_CONN_H

#include "base/thread.h"
#include "redis/connect/connect.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;

/* Of one connection; all zero at the start. */
struct relock_spin {
    uint64_t began_ns;    /* the present wait */
    bool spins;           /* the present wait */
    unsigned n_roomy;     /* waits in a row that left a processor to others */
    unsigned n;           /* waits in which the thread had the choice */
    uint64_t spinning_ns; /* how long waits take with retries: a moving average; 0 if unknown */
    uint64_t sleeping_ns; /* without */

    /* what getrusage() said last */
    uint64_t looked_ns;
    long n_preempted;
    bool is_crowded; /* threads of the process were preempted since the time before */
};

enum relock_sync_conn_state {
    RELOCK_SYNC_CONN_CLOSED,
    RELOCK_SYNC_CONN_DIALING,
    RELOCK_SYNC_CONN_LOGGING_IN,
    RELOCK_SYNC_CONN_READY,
};

struct relock_sync_conn {
    const struct relock_server *server;
    enum relock_sync_conn_state state;
    struct relock_dial dial;   /* used in DIALING */
    struct relock_login login; /* used in LOGGING_IN; `conn_id` is this connection's in READY */
    uint64_t connect_by_ms;    /* in both: the time limit of the attempt */
    struct relock_wire wire;
    uint64_t timeout_ms; /* the timeout that the socket has now */
    uint64_t used_ms;    /* when it was last used */
    size_t n_sent;       /* how many bytes the last send has written */
    uint64_t n_ready;    /* how often it became READY */
    struct relock_spin spin;

    struct relock_mutex mutex;
    struct {
        int fd; /* the socket of `wire`; -1 */
    } guarded;  /* by mutex */
};

void relock_sync_conn_init(struct relock_sync_conn *conn, const struct relock_server *server);
void relock_sync_conn_deinit(struct relock_sync_conn *conn);

/*
 * Connects and logs in, unless it is connected.
 *
 * Returns RELOCK_OK; RELOCK_AGAIN at the deadline: the next call continues, for
 * `connect_timeout_ms` in all; RELOCK_REPLICA, RELOCK_E_CONN, RELOCK_E_AUTH, RELOCK_E_SERVER,
 * RELOCK_E_UNSUPPORTED, RELOCK_E_NOMEM. A failure has its cause in `wire.why`.
 */
int relock_sync_conn_connect(struct relock_sync_conn *conn, uint64_t deadline_ms);

/* Sends the commands in `wire.out`. Returns RELOCK_OK, RELOCK_E_CONN, RELOCK_E_NOMEM. */
int relock_sync_conn_send(struct relock_sync_conn *conn, uint64_t deadline_ms);

/* Waits for the next reply, which the caller frees. Returns as relock_sync_conn_send; before the
 * first reply also RELOCK_E_AUTH; RELOCK_AGAIN at the deadline: the reply may still come. */
int relock_sync_conn_receive(struct relock_sync_conn *conn, uint64_t deadline_ms,
                             struct redisReply **reply);

/*
 * Commands to a server from a background thread of the library. The functions block until the
 * deadline, and return early when the thread is to stop.
 */
struct relock_question {
    struct relock_sync_conn *conn;
    const atomic_bool *stops; /* the thread is to stop */
    uint64_t deadline_ms;
};

/* To ask: reach connects; append the commands to `conn->wire.out`; send them; receive each reply,
 * which the caller frees. Each returns as relock_sync_conn_send; RELOCK_E_CONN also if the question
 * is over or the server is a replica. The cause of a failure is in `conn->wire.why`. */
int relock_question_reach(struct relock_question *question);
int relock_question_send(struct relock_question *question);
int relock_question_receive(struct relock_question *question, struct redisReply **reply);

#endif
