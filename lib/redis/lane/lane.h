/*
 * Lane - a connection for commands that threads share, without a thread of its own
 *
 * Handing each command to an event-loop thread and back would cost two context switches, so callers
 * talk to Redis themselves. One of the threads on a lane, the driver, reads for all of them. The
 * others send their commands beside it, or leave them in a queue that the driver sends, and sleep.
 * The driver wakes each when its replies have come, and hands the driving over when it has its own.
 * So a single caller costs as much as with a plain connection, and many callers share few
 * connections, over which their replies travel in batches.
 *
 * Each exchange ends in exactly one way: answered, or failed, with `sent` telling whether it may
 * have run. At its deadline an exchange leaves alone: an orphan waits for its reply, and the others
 * on the connection go on. A connection fails, and all exchanges on it fail with it, when it
 * breaks, when a command has been unanswered for `command_timeout_ms`, and when only orphans are
 * left on it.
 *
 * Threads: ask, retire and cut from any, with an exchange of the caller's; init and deinit
 * while no thread uses the lane.
 */
#ifndef RELOCK_LANE_H
#define RELOCK_LANE_H

#include "redis/lane/sync_conn.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_conn_id;
struct relock_orphan;
struct relock_spare;

/* ---- exchanges and orphans ------------------------------------------------------------------- */

/*
 * Commands that go out in one piece over a lane, and their replies. On the stack of its caller;
 * between the start and the end of relock_lane_ask the driver and the sender of the lane use it
 * too, as said at the fields.
 */
struct relock_exchange {
    /* the commands: set by the caller; all else is zero when it starts */
    struct relock_text commands;
    const struct relock_conn_id *kills; /* instead of commands: the connection to kill; or NULL */
    bool stays; /* it goes out over the connection that the lane has, or fails unsent */
    unsigned n_replies;
    unsigned forms;              /* of the last reply: see reply.h */
    unsigned forms_before;       /* of each earlier one */
    struct redisReply **replies; /* with RELOCK_OK, this array of `n_replies` has all replies, which
                                    the caller frees, and `reply` has none. NULL: not wanted */

    /* the outcome */
    struct redisReply *reply;       /* with RELOCK_OK: the last reply, which the caller frees */
    struct redisReply *before;      /* the reply before it, likewise; earlier ones are dropped */
    bool sent;                      /* with a failure: part of it went out, so it may have run */
    struct relock_conn_id *conn_id; /* if sent: of that connection, a reference; or NULL */
    struct relock_orphan *orphan;   /* its reply may still come: to adopt or to drop; or NULL */
    char why[RELOCK_WHY_MAX];       /* the cause of a failure */

    /* the lane's: written under its mutex, or by the driver while it is the sender, too; read by
     * the caller once its gate is open, or after it has taken the exchange out of the queue */
    struct relock_exchange *next, *prev; /* in the queue, or among those in flight */
    struct relock_gate gate;             /* opens when the exchange has ended or is to drive */
    uint64_t deadline_ms;                /* constant: the caller's */
    uint64_t leave_ms;                   /* in flight: the caller waits for replies until then; of a
                                            posted one, it may block others until then */
    uint64_t limit_ms; /* in flight: without a reply by then the connection fails */
    bool is_orphan;    /* constant: it is part of a struct relock_orphan */
    bool is_posted;    /* constant: it is part of a struct relock_posted */
    unsigned n_left;   /* replies still to come */
    uint64_t starts;   /* how many bytes were sent over the lane before its first one */
    int result;
    bool ended;

    /* guarded by the mutex of the lane */
    bool queued;
    bool drives; /* its thread is the driver, or about to be */
};

/* Called under no mutex, on the thread that drives the lane or has just done so. `answered`: the
 * command has run; if not, it may still run for as long as the server keeps its end of the
 * connection. */
typedef void relock_orphan_fn(void *arg, const struct relock_conn_id *conn_id, bool answered);

/*
 * A command in flight whose caller returned at its deadline. Redis replies in the order of the
 * commands. So an orphan takes the place of its exchange on the connection, and its reply is
 * dropped. It ends when that reply has come, or with the connection. The caller either drops it, or
 * adopts it and learns which of the two happened.
 *
 * Threads: adopt and drop by that caller, once; end by the thread that took the reply. The second
 * of the two frees it.
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

/*
 * Commands whose caller does not wait for the replies. Whichever thread drives the lane next reads
 * them, or the I/O thread, if no call uses the lane. On the heap; it ends with one call of `fn`, on
 * the thread that drives, under no mutex. `fn` has the outcome in the exchange, and frees the
 * struct, the reply, and the connection id.
 *
 * Threads: that of its caller, until it is posted; then the driver of the lane.
 */
struct relock_posted {
    struct relock_exchange exchange;
    void (*fn)(struct relock_posted *posted);
};

/* Every exchange gets at least this time for an answer, even if its deadline is nearer: a short
 * wait is still a real attempt. */
#define RELOCK_ANSWER_MIN_MS 50

/* A connection and the exchanges in flight over it. */
struct relock_inflight {
    struct relock_sync_conn
        conn; /* the driver only; the sender uses its socket and output buffer */

    /* under the mutex of the lane; or the driver's, while it is the sender, too */
    struct relock_exchange *exchanges; /* and orphans, and those posted */
    uint64_t n_sent;                   /* bytes, since the lane was made */
    size_t n_unanswered;               /* bytes of those commands */
    const char *failure;               /* to send, of a thread that does not drive; or NULL */
};

/* ---- lane ------------------------------------------------------------------------------------ */

/* Which thread sends. */
enum relock_sender {
    RELOCK_SENDER_NONE,
    RELOCK_SENDER_DRIVER,
    RELOCK_SENDER_OTHER, /* the thread of an exchange, beside the driver */
};

struct relock_lane {
    struct relock_mutex mutex;
    struct {
        struct relock_exchange *queue; /* not sent yet */
        bool driven;                   /* some thread is the driver, or about to be */
        bool only_takes;               /* the driver is the I/O thread, which sends nothing */
        bool is_left; /* the driver left the queue to another sender when it looked last */
        enum relock_sender sender; /* which thread sends */
        uint64_t beside_until_ms;  /* until then, others may send while the driver reads */
        struct relock_gate *claim; /* of the driver, which waits until it may send; or NULL */
    } guarded;                     /* by mutex */

    struct relock_inflight inflight; /* see there */
    atomic_bool retired;             /* set by any thread, reset by the driver */
    atomic_uint n_posted;            /* posted and not ended; any thread */
    struct relock_spare *spare;      /* constant: a connection to use, if it is there; or NULL */

    /* set by the driver, or while no thread uses the lane */
    atomic_bool is_up;                  /* it was connected when it was last used */
    atomic_uint_fast64_t down_until_ms; /* others are better until then; 0: it has not failed */
};

void relock_lane_init(struct relock_lane *lane, const struct relock_server *server);
void relock_lane_deinit(struct relock_lane *lane);

/* The next exchange goes out over a new connection; those in flight are answered over this one. */
void relock_lane_retire(struct relock_lane *lane);

/*
 * Sends commands without waiting for their replies: hands them to the kernel, or leaves them in the
 * queue to the present sender or to the driver, who sends them when a reply comes. The caller is a
 * user of the lane, and the exchange has its commands. Connects nothing. If the socket is full and
 * nobody drives, it blocks until `deadline_ms`, and for at least RELOCK_ANSWER_MIN_MS; then the
 * connection fails. Beside a driver it does not block.
 *
 * Returns RELOCK_OK: `fn` is called, perhaps already. RELOCK_AGAIN: nothing was sent, and `fn` is
 * not called, because the lane has no connection, or too many replies to read,
 * or the I/O thread drives it.
 */
int relock_lane_post(struct relock_lane *lane, struct relock_posted *posted, uint64_t deadline_ms);

/* How often it has connected. Threads: its only user. */
uint64_t relock_lane_connects(const struct relock_lane *lane);

const struct relock_server *relock_lane_server(const struct relock_lane *lane);

/* Enough for the commands of a lock whose name has a usual length; longer ones are allocated. */
#define RELOCK_ROUND_TRIP_ROOM 1024

/*
 * Commands that are written on the stack and sent over a lane as one exchange:
 *
 *     relock_round_trip_begin(&round_trip);
 *     relock_command_begin(&round_trip.commands, 1);
 *     relock_command_word(&round_trip.commands, "PING");
 *     round_trip.exchange.n_replies = 1;
 *     r = relock_round_trip_ask(&round_trip, lane, deadline_ms);
 */
struct relock_round_trip {
    struct relock_exchange exchange;
    struct relock_buffer commands;
    char room[RELOCK_ROUND_TRIP_ROOM];
};

void relock_round_trip_begin(struct relock_round_trip *round_trip);

/* Sends the commands, or kills the connection that `exchange.kills` names. Returns as
 * relock_lane_ask. */
int relock_round_trip_ask(struct relock_round_trip *round_trip, struct relock_lane *lane,
                          uint64_t deadline_ms);

/* Sends commands that do no harm if they run after a failure: it leaves no connection id and no
 * orphan.
 */
int relock_round_trip_ask_harmless(struct relock_round_trip *round_trip, struct relock_lane *lane,
                                   uint64_t deadline_ms);

#endif
