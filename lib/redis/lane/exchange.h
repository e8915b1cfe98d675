/*
 * Exchange - commands that go out in one piece over a lane, and their replies
 *
 * Threads: its caller's, which has it on its stack; between the start and the end of
 * relock_lane_ask the driver of the lane uses it too, as said at the fields.
 */
#ifndef RELOCK_EXCHANGE_H
#define RELOCK_EXCHANGE_H

#include "base/gate.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

struct redisReply;
struct relock_conn_id;
struct relock_orphan;

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

#endif
