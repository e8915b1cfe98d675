/*
 * Lane - a command connection that calling threads share and drive
 *
 * Handing each command to an event-loop thread and back would cost two context switches, so a
 * caller talks to Redis itself. Who finds the lane driven leaves its question in the queue and
 * sleeps; whoever drives writes and reads for all, wakes each as its replies come, and hands the
 * driving on when it has its own. So one caller costs what a plain connection costs, and many share
 * few connections on which their commands go out and come back in batches.
 *
 * Each question ends in exactly one way: answered, or a failure, with `sent` saying whether it may
 * have run. At its deadline a question leaves alone: an orphan waits for its reply, and the others
 * on the connection go on. A connection fails, and with it all that is on it, when it breaks, when
 * a command has been unanswered for `command_timeout_ms`, and when only orphans are left on it.
 *
 * Threads: ask and retire from any, a question being its caller's; the lane has no user at init,
 * deinit and abandon.
 */
#ifndef RELOCK_LANE_H
#define RELOCK_LANE_H

#include "base/gate.h"
#include "redis/command.h"
#include "redis/link.h"

/* A question that was sent has at least so long: a short deadline is a real attempt all the same.
 */
#define RELOCK_LANE_ANSWER_MS 50

struct redisReply;
struct relock_orphan;

/* Commands that go out in one piece, and their replies. On the stack of whoever asks. */
struct relock_question {
    /* what is asked */
    struct relock_text commands;
    const struct relock_origin *kills; /* instead of commands: is to be killed; or NULL */
    unsigned n_replies;

    /* what came of it */
    struct redisReply *reply;     /* the last one; with RELOCK_OK, the caller's */
    struct redisReply *before;    /* the one before it, likewise; others are dropped */
    bool sent;                    /* with a failure: some of it went out, and may run */
    struct relock_origin *origin; /* when sent: on that connection, a reference; or NULL */
    struct relock_orphan *orphan; /* the answer may come yet: to be adopted or dropped; or NULL */
    char why[RELOCK_WHY_MAX];     /* with a failure */

    /* the lane's: written by the driver, and read by the one who asked once its gate is open; or
     * written by that one, which has taken it out of the queue */
    struct relock_question *next, *prev; /* in the queue, or among those under way */
    struct relock_gate gate;             /* opened when it has ended or is to drive */
    uint64_t deadline_ms;                /* constant */
    uint64_t leave_ms;                   /* sent: not answered by then, it leaves, */
    uint64_t limit_ms;                   /* and by then the connection has failed */
    bool is_orphan;                      /* constant: stands in a struct relock_orphan */
    unsigned n_left;                     /* replies to come */
    size_t starts;                       /* so far into what is being sent */
    int result;
    bool ended;

    /* guarded by the mutex of the lane */
    bool queued;
    bool drives; /* its thread is the driver, or about to be */
};

struct relock_lane {
    struct relock_mutex mutex;
    struct {
        struct relock_question *queue;
        bool driven;
    } guarded; /* by mutex */

    struct {
        struct relock_link link;
        struct relock_question *under_way;
    } driver; /* the driver only */

    atomic_bool retired; /* set by any thread, taken back by the driver */
};

void relock_lane_init(struct relock_lane *lane, const struct relock_server *server);
void relock_lane_deinit(struct relock_lane *lane);

/* In a forked child: closes the descriptor, of which the parent has its own, and no more. */
void relock_lane_abandon(struct relock_lane *lane);

/*
 * Asks, and waits for the replies; connects first if need be. What is still in the queue at the
 * deadline is not sent any more.
 *
 * Returns RELOCK_OK; RELOCK_REPLICA; RELOCK_E_CONN, RELOCK_E_AUTH, RELOCK_E_SERVER,
 * RELOCK_E_UNSUPPORTED, RELOCK_E_NOMEM.
 */
int relock_lane_ask(struct relock_lane *lane, struct relock_question *question,
                    uint64_t deadline_ms);

/* The next question goes out on a new connection; those under way are answered on this one. */
void relock_lane_retire(struct relock_lane *lane);

/* Connections made again, so far. */
uint64_t relock_lane_reconnects(struct relock_lane *lane);

const struct relock_server *relock_lane_server(const struct relock_lane *lane);

/* The address, for what is said about it. */
const char *relock_lane_label(const struct relock_lane *lane);

#endif
