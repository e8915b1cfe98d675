/*
 * Lane - a command connection, driven by the thread that needs it
 *
 * Handing each command to an event-loop thread and back would cost two context switches, so a
 * caller talks to Redis itself: it takes a lane, uses it alone, and gives it back. A lane connects
 * when it is first needed and again after a failure. Whatever fails, or comes too late, closes it:
 * a reply that is still under way must not be taken for the next one's. Who finds all lanes busy
 * gets one in the order of coming.
 *
 * Threads: take and give from any; a lane belongs to the thread that has taken it.
 */
#ifndef RELOCK_LANE_H
#define RELOCK_LANE_H

#include "redis/server.h"
#include "redis/wire.h"

struct relock_lanes;

struct relock_lane {
    const struct relock_server *server;
    struct relock_wire wire;
    struct relock_origin *origin; /* of the connection; NULL when the server does not say */
    uint64_t timeout_ms;          /* of the socket, as it is set now */
    uint64_t used_ms;             /* when it was given back */
    bool connected_once;
    bool touched; /* some of what was last to be sent did go out */
    struct relock_lanes *lanes;
    struct relock_lane *next; /* idle; guarded by the mutex of the lanes */
};

/* Returns RELOCK_OK, RELOCK_E_NOMEM. No lane is connected yet. */
int relock_lanes_new(const struct relock_server *server, unsigned n, struct relock_lanes **lanes);

/* No lane may be taken. Takes NULL. Returns NULL. */
struct relock_lanes *relock_lanes_free(struct relock_lanes *lanes);

/* In a forked child: closes the descriptors, of which the parent has its own, and no more. */
void relock_lanes_abandon(struct relock_lanes *lanes);

/* Connections made again, so far. */
uint64_t relock_lanes_reconnects(struct relock_lanes *lanes);

/* Returns RELOCK_OK; RELOCK_E_CONN when all are busy until the deadline. */
int relock_lanes_take(struct relock_lanes *lanes, uint64_t deadline_ms, struct relock_lane **lane);
void relock_lanes_give(struct relock_lanes *lanes, struct relock_lane *lane);

/*
 * Makes sure that there is a connection.
 *
 * Returns RELOCK_OK, RELOCK_E_CONN, RELOCK_E_AUTH, RELOCK_E_SERVER, RELOCK_E_NOMEM; `wire.why`
 * says why.
 */
int relock_lane_connect(struct relock_lane *lane, uint64_t deadline_ms);

/* Sends what was appended to `wire.out`. Returns RELOCK_OK, RELOCK_E_CONN, RELOCK_E_NOMEM. */
int relock_lane_send(struct relock_lane *lane, uint64_t deadline_ms);

/* Waits for the next reply, which is the caller's. Returns as relock_lane_send. */
int relock_lane_receive(struct relock_lane *lane, uint64_t deadline_ms, struct redisReply **reply);

/* Closes the connection; the lane can connect again. */
void relock_lane_close(struct relock_lane *lane);

#endif
