/*
 * Lanes - the lanes to a server, of which each call joins one
 *
 * As many calls as there are lanes have one each. More calls, up to 32, share one lane; beyond
 * that, the more calls there are, the fewer lanes they join, at least two: the server answers
 * several commands of one connection with less work. With TLS, this is so from the first call on
 * that has no lane of its own. A call that holds up the commands behind it (WAIT) joins a lane
 * alone. While a lane cannot connect, calls join those that can.
 *
 * The server, or the system, may accept no further connection: maxclients is reached, no descriptor
 * is left, a firewall drops it. Then calls and renewals have to share the connections that exist.
 * The pipeline takes one that no call uses. If the lanes have none left, and a call wants one, the
 * pipeline gives its own as a spare, and the next call that has to connect takes it.
 *
 * Threads: any, unless a function says otherwise.
 */
#ifndef RELOCK_LANES_H
#define RELOCK_LANES_H

#include "base/thread.h"
#include "redis/connect/connect.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stdint.h>

struct relock_conn_id;
struct relock_lane;
struct relock_lanes;
struct relock_loop;
struct relock_peer;

/* A connection that has logged in, between two users. */
struct relock_loan {
    struct relock_socket socket;
    struct relock_conn_id *conn_id; /* or NULL */
    unsigned n_switches;            /* failovers known when its user gave it away */
};

/* Connects nothing yet. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_lanes_new(const struct relock_server *server, unsigned n, struct relock_lanes **lanes);

/* No lane may have a user. Takes NULL. Returns NULL. */
struct relock_lanes *relock_lanes_free(struct relock_lanes *lanes);

/* Closes the connections that no call uses. Threads: any. */
void relock_lanes_close_idle(struct relock_lanes *lanes);

/* Commands that come from now on go out over new connections. From any thread. */
void relock_lanes_retire(struct relock_lanes *lanes);

/*
 * Gives away a connection that no call uses. If there is none, calls leave one of the lanes alone
 * for a moment: try again soon. Threads: the I/O thread. Returns whether it did.
 */
bool relock_lanes_lend(struct relock_lanes *lanes, struct relock_loan *loan);

/* From now on the thread of this loop may give calls a connection: it is woken when they want one.
 * Threads: the I/O thread. */
void relock_lanes_serve(struct relock_lanes *lanes, struct relock_loop *loop);

/* Whether a call wants a connection, and no lane has one. Says so once. Threads: the I/O thread. */
bool relock_lanes_want(struct relock_lanes *lanes);

/* The next lane that has to connect uses this connection. Threads: the I/O thread. */
void relock_lanes_give(struct relock_lanes *lanes, const struct relock_loan *loan);

/* Ends the connections that lead to this peer. From any thread. */
void relock_lanes_cut(struct relock_lanes *lanes, const struct relock_peer *peer);

/*
 * Joins a lane. A call that wants one `alone` waits until a lane is unused; calls that come later
 * wait behind it.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN at the deadline: RELOCK_LANES_BUSY.
 */
#define RELOCK_LANES_BUSY "all connections were busy until the deadline"
int relock_lanes_join(struct relock_lanes *lanes, bool alone, uint64_t deadline_ms,
                      struct relock_lane **lane);
void relock_lanes_leave(struct relock_lanes *lanes, struct relock_lane *lane);

/*
 * Replies to commands that were posted: see relock_lane_post().
 *
 * Takes those that have come over lanes that no call uses. Threads: the I/O thread.
 */
void relock_lanes_read(struct relock_lanes *lanes);

/* Waits for those on this lane until the deadline, or until another call wants the lane. Returns
 * false if another thread reads them. */
bool relock_lanes_await(struct relock_lanes *lanes, struct relock_lane *lane, uint64_t deadline_ms);

/* Ends the commands without their replies. No call uses a lane any more. */
void relock_lanes_end_posted(struct relock_lanes *lanes);

#endif
