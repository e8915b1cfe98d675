/*
 * In flight - the connection of a lane, the exchanges that were sent over it, and orphans
 *
 * Redis replies in the order of the commands, so these exchanges form a list in that order. At its
 * deadline an exchange leaves the list and an orphan takes its place. The caller returns, and the
 * orphan drops the reply when it comes. The others on the connection notice nothing.
 *
 * Threads: the driver of the lane.
 */
#ifndef RELOCK_INFLIGHT_H
#define RELOCK_INFLIGHT_H

#include "base/gate.h"
#include "redis/lane/sync_conn.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

struct relock_orphan;

/*
 * Commands that go out in one piece over a lane, and their replies. On the stack of its caller;
 * between the start and the end of relock_lane_ask the driver of the lane uses it too, as said at
 * the fields.
 */
struct relock_exchange {
    /* the commands: set by the caller; all else is zero when it starts */
    struct relock_text commands;
    const struct relock_conn_id *kills; /* instead of commands: the connection to kill; or NULL */
    bool stays; /* it goes out over the connection that the lane has, or fails unsent */
    unsigned n_replies;
    unsigned forms;        /* of the last reply: see reply.h */
    unsigned forms_before; /* of each earlier one */

    /* the outcome */
    struct redisReply *reply;       /* with RELOCK_OK: the last reply, which the caller frees */
    struct redisReply *before;      /* the reply before it, likewise; earlier ones are dropped */
    bool sent;                      /* with a failure: part of it went out, so it may have run */
    struct relock_conn_id *conn_id; /* if sent: of that connection, a reference; or NULL */
    struct relock_orphan *orphan;   /* its reply may still come: to adopt or to drop; or NULL */
    char why[RELOCK_WHY_MAX];       /* the cause of a failure */

    /* the lane's: written by the driver, and read by the caller once its gate is open; or written
     * by the caller after it has taken the exchange out of the queue */
    struct relock_exchange *next, *prev; /* in the queue, or among those in flight */
    struct relock_gate gate;             /* opens when the exchange has ended or is to drive */
    uint64_t deadline_ms;                /* constant: the caller's */
    uint64_t leave_ms;                   /* once sent: the caller waits for replies until then */
    uint64_t limit_ms; /* once sent: without a reply by then the connection fails */
    bool is_orphan;    /* constant: it is part of a struct relock_orphan */
    unsigned n_left;   /* replies still to come */
    size_t starts;     /* offset of its first byte in the bytes being sent */
    int result;
    bool ended;

    /* guarded by the mutex of the lane */
    bool queued;
    bool drives; /* its thread is the driver, or about to be */
};

/* Called under no mutex, on the thread that drives the lane. `answered`: the command has run; if
 * not, it may still run for as long as the server keeps its end of the connection. */
typedef void relock_orphan_fn(void *arg, const struct relock_conn_id *conn_id, bool answered);

/*
 * A command in flight whose caller returned at its deadline. Redis replies in the order of the
 * commands. So an orphan takes the place of its exchange on the connection, and its reply is
 * dropped. It ends when that reply has come, or with the connection. The caller either drops it, or
 * adopts it and learns which of the two happened.
 *
 * Threads: adopt and drop by that caller, once; end by the driver of the lane. The second of the
 * two frees it.
 */
struct relock_orphan {
    struct relock_exchange exchange; /* in flight on the lane; `conn_id` is a reference */
    atomic_int state;
    bool answered; /* valid once it has ended */
    relock_orphan_fn *fn;
    void *arg;
};

/* Has `fn` called when the orphan ends. Returns false, and `*answered`, when it has ended already.
 */
bool relock_orphan_adopt(struct relock_orphan *orphan, relock_orphan_fn *fn, void *arg,
                         bool *answered);

/* Its end is of no interest. Takes NULL. */
void relock_orphan_drop(struct relock_orphan *orphan);

/* Every exchange gets at least this time for an answer, even if its deadline is nearer: a short
 * wait is still a real attempt. */
#define RELOCK_ANSWER_MIN_MS 50

struct relock_inflight {
    struct relock_sync_conn conn;
    struct relock_exchange *exchanges; /* and orphans */
};

/* The first exchange with a caller; NULL if there are only orphans, or nothing. */
struct relock_exchange *relock_inflight_first(const struct relock_inflight *inflight);

/* When the first exchange leaves, or fails, unless a reply comes; RELOCK_NEVER if there is none. */
uint64_t relock_inflight_due_ms(const struct relock_inflight *inflight);

/* Sends these in one piece. After a failure they are in flight, too. Returns as
 * relock_sync_conn_send. */
int relock_inflight_send(struct relock_inflight *inflight, struct relock_exchange *exchanges,
                         uint64_t now_ms);

/*
 * Waits for a reply until `until_ms` and takes all that have come with it. Puts the exchanges that
 * have ended into `*ended`, which is empty. If no reply came, those whose deadline has passed
 * leave. If one does not fit its command, or comes without one, none that came with it counts.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN, RELOCK_E_NOMEM when the connection has failed.
 */
int relock_inflight_receive(struct relock_inflight *inflight, uint64_t until_ms,
                            struct relock_exchange **ended);

/* Closes the connection and ends with `result` all that is in flight, and `unsent`, which were to
 * go out over it. Appends them to `*ended`. */
void relock_inflight_fail(struct relock_inflight *inflight, int result,
                          struct relock_exchange *unsent, struct relock_exchange **ended);

/* Closes the connection, on which there are only orphans, and ends them. */
void relock_inflight_close(struct relock_inflight *inflight);

#endif
