/*
 * Lanes - which connection a call uses
 *
 * An idle one if there is one; when all are busy, that with the fewest users. A command that keeps
 * waiting what comes behind it wants a lane alone.
 *
 * Threads: join and leave from any.
 */
#ifndef RELOCK_LANES_H
#define RELOCK_LANES_H

#include "redis/server.h"

#include <stdbool.h>

struct relock_lane;
struct relock_lanes;

/* Returns RELOCK_OK, RELOCK_E_NOMEM. Nothing is connected yet. */
int relock_lanes_new(const struct relock_server *server, unsigned n, struct relock_lanes **lanes);

/* Nobody has joined a lane. Takes NULL. Returns NULL. */
struct relock_lanes *relock_lanes_free(struct relock_lanes *lanes);

/* In a forked child: closes the descriptors, of which the parent has its own, and no more. */
void relock_lanes_abandon(struct relock_lanes *lanes);

/* Connections made again, so far. */
uint64_t relock_lanes_reconnects(struct relock_lanes *lanes);

/*
 * Who wants a lane `alone` waits for one that nobody uses, in the order of coming, and everybody
 * who comes later waits behind it.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN when there is none until the deadline.
 */
int relock_lanes_join(struct relock_lanes *lanes, bool alone, uint64_t deadline_ms,
                      struct relock_lane **lane);
void relock_lanes_leave(struct relock_lanes *lanes, struct relock_lane *lane);

#endif
