/*
 * Private - what the files of lib/redis/lane share, and nobody else
 *
 * What a header of this folder says of a module and its threads holds for its part here, too.
 */
#ifndef RELOCK_LANE_PRIVATE_H
#define RELOCK_LANE_PRIVATE_H

#include "redis/connect/connect.h"
#include "redis/lane/lane.h"
#include "redis/lane/lanes.h"
#include "redis/lane/sentinels.h"
#include "redis/lane/sync_conn.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct redisReply;
struct relock_loop;
struct relock_peer;

/* ---- sync conn ------------------------------------------------------------------------------- */

/*
 * On many machines, to sleep and to be woken takes longer than a round trip to a near server. So a
 * thread retries its socket for up to RELOCK_SPIN_NS where this has turned out to be faster. Each
 * connection compares how long its waits take with retries and without, and tries the slower way
 * now and then. Threads spin only while fewer drivers wait for replies than the process has
 * processors, which leaves one for the server or for other work. The number of waiting threads
 * belongs to the process.
 */
#define RELOCK_SPIN_NS 50000

/* The caller begins to wait. Returns whether it is to retry. */
bool relock_spin_begin(struct relock_spin *spin);

/* Whether the caller goes on with its retries. */
bool relock_spin_continues(struct relock_spin *spin);

/* The wait has ended. */
void relock_spin_end(struct relock_spin *spin);

/* Returns RELOCK_OK if it is connected, else RELOCK_E_CONN. */
int relock_sync_conn_keep(struct relock_sync_conn *conn);

/* Whether it is connected, and was used so recently that a command goes out without a check. */
bool relock_sync_conn_is_warm(const struct relock_sync_conn *conn, uint64_t now_ms);

/* As relock_sync_conn_send, by a caller that has just read the clock. */
int relock_sync_conn_send_now(struct relock_sync_conn *conn, uint64_t now_ms, uint64_t deadline_ms);

/* Waits for the only reply in flight: retries the socket for a moment before it sleeps. The caller
 * has just read the clock. */
int relock_sync_conn_receive_soon(struct relock_sync_conn *conn, uint64_t now_ms,
                                  uint64_t deadline_ms, struct redisReply **reply);

/* Replies do not belong to the commands that they seem to answer: logs that, for the reason `what`.
 * Returns RELOCK_E_CONN, with which the user closes the connection. */
int relock_sync_conn_distrust(struct relock_sync_conn *conn, const char *what);

/* Closes the connection. It can be made again. */
void relock_sync_conn_close(struct relock_sync_conn *conn);

/* Gives the connection away, if there is one that works and nothing is in flight on it. Returns
 * whether it did. */
bool relock_sync_conn_lend(struct relock_sync_conn *conn, struct relock_loan *loan);

/* Closes the connection and goes on with this one, if that can be used. */
void relock_sync_conn_adopt(struct relock_sync_conn *conn, const struct relock_loan *loan);

/* Ends the connection under its user, who meets a failure, if it leads to this peer. */
void relock_sync_conn_cut(struct relock_sync_conn *conn, const struct relock_peer *peer);

/* When to end the next wait, to check whether the question is over. */
uint64_t relock_question_slice_ms(const struct relock_question *question);

/* Whether the deadline has passed or the thread is to stop. */
bool relock_question_is_over(const struct relock_question *question);

/* ---- inflight -------------------------------------------------------------------------------- */

/*
 * In flight - the connection of a lane, the exchanges that were sent over it, and orphans
 *
 * Redis replies in the order of the commands, so these exchanges form a list in that order. At its
 * deadline an exchange leaves the list and an orphan takes its place. The caller returns, and the
 * orphan drops the reply when it comes. The others on the connection notice nothing.
 *
 * Threads: the driver of the lane while it is the sender, too; any under the mutex of the lane;
 * wait: the driver.
 */

/* The first exchange whose thread waits; NULL if there are only others, or nothing. */
struct relock_exchange *relock_inflight_first(const struct relock_inflight *inflight);

bool relock_inflight_has_orphan(const struct relock_inflight *inflight);
bool relock_inflight_has_posted(const struct relock_inflight *inflight);

/* When the first exchange leaves, or fails, unless a reply comes; RELOCK_NEVER if there is none. */
uint64_t relock_inflight_due_ms(const struct relock_inflight *inflight);

/* When the caller leaves, if the exchange is sent now; RELOCK_NEVER if nobody waits for it. */
uint64_t relock_inflight_leaves_ms(const struct relock_exchange *exchange, uint64_t now_ms);

/* Appends the commands to the buffer of the connection. From now on the exchange is in flight, and
 * counts as sent. */
void relock_inflight_add(struct relock_inflight *inflight, struct relock_exchange *exchange,
                         uint64_t now_ms);

/* Sends what was added. After a failure, `sent` of each exchange says whether it may have run.
 * Returns as relock_sync_conn_send. */
int relock_inflight_send(struct relock_inflight *inflight, uint64_t now_ms);

/* Whether a thread that does not drive may add the exchange and send it at once: a socket takes it,
 * and the driver, which waits for replies until `until_ms`, need not wake up sooner because of it.
 */
bool relock_inflight_fits_beside(const struct relock_inflight *inflight,
                                 const struct relock_exchange *exchange, uint64_t now_ms,
                                 uint64_t until_ms);

/* To send what was added had this result, after `n` bytes: `sent` of each exchange then says
 * whether it may have run. */
void relock_inflight_note_sent(struct relock_inflight *inflight, int result, size_t n);

/* Waits for a reply from `now_ms` until `until_ms`, 0: not at all. Returns RELOCK_OK with the
 * reply; RELOCK_AGAIN, RELOCK_E_CONN, RELOCK_E_NOMEM without. */
int relock_inflight_wait(struct relock_inflight *inflight, uint64_t now_ms, uint64_t until_ms,
                         struct redisReply **reply);

/*
 * Takes this reply and all that have come with it. Puts the exchanges that have ended into
 * `*ended`, which is empty. Without a reply, those whose deadline has passed leave. If one does not
 * fit its command, or comes without one, none that came with it counts. `*doubt` then says so, and
 * the caller passes it to relock_sync_conn_distrust(), under no mutex; else it is NULL.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN, RELOCK_E_NOMEM when the connection has failed.
 */
int relock_inflight_take(struct relock_inflight *inflight, struct redisReply *reply,
                         struct relock_exchange **ended, const char **doubt);

/* Ends an orphan that is no longer in flight. */
void relock_orphan_end(struct relock_exchange *exchange);

/* Closes the connection and ends with `result` all that is in flight, and `unsent`, which were to
 * go out over it. Appends them to `*ended`. */
void relock_inflight_fail(struct relock_inflight *inflight, int result,
                          struct relock_exchange *unsent, struct relock_exchange **ended);

/* Closes the connection, on which there are only orphans, and ends them. */
void relock_inflight_close(struct relock_inflight *inflight);

/* ---- sending --------------------------------------------------------------------------------- */

/*
 * Sending - which thread sends over a lane
 *
 * While the driver waits for replies, threads that come send their commands themselves. There is
 * one sender at a time; what comes meanwhile waits in the queue.
 */

/* The next step of the thread of an exchange. */
enum relock_part {
    RELOCK_PART_WAIT,  /* the exchange is in the queue: it waits at the gate */
    RELOCK_PART_SEND,  /* the exchange is in flight: it calls relock_sending_beside(), then waits */
    RELOCK_PART_DRIVE, /* the exchange is in the queue */
    RELOCK_PART_SEND_AND_DRIVE, /* the exchange is in flight, and to be sent: it is the sender */
    RELOCK_PART_NONE, /* the exchange, which is posted, did not enter: the I/O thread drives, which
                         may not wait for a socket to take it */
};

enum relock_part relock_sending_enter(struct relock_lane *lane, struct relock_exchange *exchange,
                                      uint64_t now_ms);

/* Sends what was added, beside the driver, and what came into the queue meanwhile. Does not block.
 */
void relock_sending_beside(struct relock_lane *lane);

/* The driver becomes the sender. If another thread sends, it unlocks the mutex and waits for that.
 */
void relock_sending_claim(struct relock_lane *lane) RELOCK_REQUIRES(lane->mutex);

/* The driver takes the queue to send it, except exchanges whose deadline has passed: their own
 * threads end them. Returns whether there is something to send. */
bool relock_sending_take(struct relock_lane *lane, const struct relock_exchange *own,
                         uint64_t now_ms) RELOCK_REQUIRES(lane->mutex);

/* The driver waits for replies, and others may send. Returns until when it waits. */
uint64_t relock_sending_allow(struct relock_lane *lane, const struct relock_exchange *own,
                              uint64_t now_ms) RELOCK_REQUIRES(lane->mutex);

/* The driver is no longer the sender, if it was. */
void relock_sending_end(struct relock_lane *lane) RELOCK_REQUIRES(lane->mutex);

/* ---- lane ------------------------------------------------------------------------------------ */

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

/*
 * Drives the lane until replies to posted commands have come, not necessarily all; or until another
 * call wants it, or `until_ms`; 0: takes those that have come. The caller is a user of the lane.
 * Returns false if another thread drives, or there is nothing to read.
 */
bool relock_lane_read(struct relock_lane *lane, uint64_t until_ms);

/* Ends posted commands without their replies. No thread uses the lane. */
void relock_lane_end_posted(struct relock_lane *lane);

/* Whether its connection works, as far as that shows without a command. No thread uses the lane. */
bool relock_lane_still_works(struct relock_lane *lane);

/* Gives its connection away, if that works. No thread uses the lane. Returns whether it did. */
bool relock_lane_lend(struct relock_lane *lane, struct relock_loan *loan);

/* Ends its connection, if it leads to this peer; the exchanges on it fail. */
void relock_lane_cut(struct relock_lane *lane, const struct relock_peer *peer);

/* ---- lanes ----------------------------------------------------------------------------------- */

/* A connection on its way from the pipeline to a lane. Nothing is in flight on it. */
struct relock_spare {
    struct relock_mutex mutex;
    struct {
        bool is_there;
        struct relock_loan loan;
    } guarded; /* by mutex */

    atomic_bool is_wanted;              /* set by calls, reset by the I/O thread */
    _Atomic(struct relock_loop *) loop; /* of the thread that may give one; NULL: nobody does */
};

/* For a lane that connects: takes the spare. Returns false if there is none. */
bool relock_spare_take(struct relock_spare *spare, struct relock_loan *loan);

/* A call has no connection, or waits for one for long: has the I/O thread look at `is_wanted`. */
void relock_spare_want(struct relock_spare *spare);

/* ---- succession ------------------------------------------------------------------------------ */

/*
 * Succession - the present master and the one before, as far as the sentinels have reported
 *
 * It finds out which answers are out of date: those of an older configuration, and, after the
 * report of a failover, those that name the old master.
 *
 * Threads: any; init and deinit while no other thread uses it.
 */

struct relock_succession {
    struct relock_mutex mutex;
    struct {
        struct relock_master now; /* in use; no host: none yet */
        struct relock_master old; /* replaced last, as a sentinel has reported; no host: none */
        struct relock_master unreported; /* replaced in a lookup, and not reported; no host: none */
        uint64_t epoch;                  /* the newest configuration that a sentinel has told */
        unsigned n_reports;              /* of replaced masters */
    } guarded;                           /* by mutex */
};

void relock_succession_init(struct relock_succession *succession);
void relock_succession_deinit(struct relock_succession *succession);

/* Whether the sentinel that gave this answer lags. */
bool relock_succession_lags(struct relock_succession *succession,
                            const struct relock_master *answer);

/* A sentinel has reported that this master was replaced. */
void relock_succession_retire(struct relock_succession *succession, const struct relock_peer *old);

/* How many reports there were. */
unsigned relock_succession_reports(struct relock_succession *succession);

/* Since there were `n_reports`, all sentinels have answered, and none has a newer answer than this.
 * If it names the old master, the last report was out of date, and no longer counts. */
void relock_succession_agree(struct relock_succession *succession,
                             const struct relock_master *answer, unsigned n_reports);

#endif
