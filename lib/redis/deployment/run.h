/*
 * Run - runs a call at the node that has its key, before a deadline
 *
 * This is the seam between the locks and the connections. Every script may be repeated without
 * harm. So a call whose connection breaks is repeated over another one, and a call that a node
 * redirects is repeated at the other node.
 *
 * Threads: any. Blocks until the deadline; for a command that was sent just before it, up to
 * RELOCK_ANSWER_MIN_MS longer.
 */
#ifndef RELOCK_RUN_H
#define RELOCK_RUN_H

#include "redis/server/server.h"

struct relock_call;
struct relock_node;
struct relock_topology;

/* Returns as call.h says. */
int relock_call_run(struct relock_call *call, struct relock_topology *topology,
                    uint64_t deadline_ms);

/*
 * Loads all scripts, so that no first call has to be sent twice. If the server refuses, each script
 * is loaded or sent whole when it is first needed. A server that answers the login is asked until
 * it answers this, too, or until the deadline. In the same round trip, it warns of a server that
 * may evict locks. Returns as relock_lane_ask, with the cause of a failure in `why`.
 */
int relock_call_load_all(struct relock_node *node, uint64_t deadline_ms, char why[RELOCK_WHY_MAX]);

#endif
