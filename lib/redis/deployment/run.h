/*
 * Run - runs a call at the node that has its key, before a deadline
 *
 * This is the seam between the locks and the connections. Every script may be repeated without
 * harm. So a call whose connection breaks is repeated over another one, and a call that a node
 * redirects is repeated at the other node.
 *
 * An attempt runs over one lane. It first kills the connection that the fence of the call names. It
 * loads the script if the server lacks it, and counts replicas if the call asks for them.
 *
 * Threads: any. Blocks until the deadline; for a command that was sent just before it, up to
 * RELOCK_ANSWER_MIN_MS longer.
 */
#ifndef RELOCK_RUN_H
#define RELOCK_RUN_H

#include "redis/server/server.h"

#include <stdbool.h>
#include <stdint.h>

struct redisReply;
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

/* Warns of a server that may evict the key of a held lock. Every policy except noeviction may do
 * so, because such a key has a lease; a server without `maxmemory` evicts nothing. `memory` is the
 * reply to INFO memory. An error, or a reply without these fields, is ignored. */
void relock_eviction_warn(const struct relock_server *server, const struct redisReply *memory);

#endif
