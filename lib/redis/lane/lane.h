/*
 * Lane - a connection for commands that threads share, without a thread of its own
 *
 * Handing each command to an event-loop thread and back would cost two context switches, so callers
 * talk to Redis themselves. One of the threads on a lane, the driver, writes and reads for all of
 * them; the others leave their exchange in the queue and sleep. The driver wakes each when its
 * replies have come, and hands the driving over when it has its own. So a single caller costs as
 * much as with a plain connection, and many callers share few connections, over which their
 * commands and replies travel in batches.
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

#include "base/thread.h"
#include "redis/lane/inflight.h"
#include "redis/server/command.h"

struct relock_spare;

struct relock_lane {
    struct relock_mutex mutex;
    struct {
        struct relock_exchange *queue; /* not taken by the driver yet */
        bool driven;                   /* some thread is the driver, or about to be */
    } guarded;                         /* by mutex */

    struct relock_inflight inflight; /* the driver only */
    atomic_bool retired;             /* set by any thread, reset by the driver */
    struct relock_spare *spare;      /* constant: a connection to use, if it is there; or NULL */

    /* set by the driver, or while no thread uses the lane */
    atomic_bool is_up;                  /* it was connected when it was last used */
    atomic_uint_fast64_t down_until_ms; /* others are better until then; 0: it has not failed */
};

void relock_lane_init(struct relock_lane *lane, const struct relock_server *server);
void relock_lane_deinit(struct relock_lane *lane);

/*
 * Sends the commands and waits for their replies; connects first if necessary. An exchange that is
 * still in the queue at the deadline is not sent any more; one that was sent has at least
 * RELOCK_ANSWER_MIN_MS for its replies.
 *
 * Returns RELOCK_OK; RELOCK_REPLICA; RELOCK_E_CONN, RELOCK_E_AUTH, RELOCK_E_SERVER,
 * RELOCK_E_UNSUPPORTED, RELOCK_E_NOMEM.
 */
int relock_lane_ask(struct relock_lane *lane, struct relock_exchange *exchange,
                    uint64_t deadline_ms);

/* The next exchange goes out over a new connection; those in flight are answered over this one. */
void relock_lane_retire(struct relock_lane *lane);

/* Whether its connection works, as far as that shows without a command. No thread uses the lane. */
bool relock_lane_still_works(struct relock_lane *lane);

/* Gives its connection away, if that works. No thread uses the lane. Returns whether it did. */
bool relock_lane_lend(struct relock_lane *lane, struct relock_loan *loan);

/* Ends its connection, if it leads to this peer; the exchanges on it fail. */
void relock_lane_cut(struct relock_lane *lane, const struct relock_peer *peer);

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
