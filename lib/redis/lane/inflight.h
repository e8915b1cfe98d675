/*
 * In flight - the connection of a lane, and the exchanges that were sent over it
 *
 * Redis replies in the order of the commands, so these exchanges form a list in that order. At its
 * deadline an exchange leaves the list and an orphan takes its place. The caller returns, and the
 * orphan drops the reply when it comes. The others on the connection notice nothing.
 *
 * Threads: the driver of the lane.
 */
#ifndef RELOCK_INFLIGHT_H
#define RELOCK_INFLIGHT_H

#include "redis/lane/sync_conn.h"

struct relock_exchange;

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
