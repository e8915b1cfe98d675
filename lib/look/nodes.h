/*
 * Nodes - visits the servers of a client, and sends a command to each
 *
 * The commands are SCAN, CLIENT LIST and INFO, which change nothing.
 *
 * Threads: any; blocks until the deadline.
 */
#ifndef RELOCK_NODES_H
#define RELOCK_NODES_H

#include "redis/deployment/topology.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

#include <stddef.h>
#include <stdint.h>

struct redisReply;

/* The next node that holds keys, with a reference, which the next call drops; NULL: there is none.
 * A cluster has several nodes. `node` is NULL at first. To end before the last node, drop the node
 * by relock_topology_drop(). */
struct relock_node *relock_nodes_next(struct relock_topology *topology, struct relock_node *node);

/*
 * Sends a command of `n_words` words to the node, whose reply has one of these `forms` (reply.h).
 * The caller frees the reply. If the node does not answer, or is a replica now, the topology asks
 * which node has its keys.
 * Returns RELOCK_OK;
 * RELOCK_E_CONN, RELOCK_E_NOMEM, RELOCK_E_SERVER, RELOCK_E_AUTH, RELOCK_E_UNSUPPORTED with the
 * cause in `why`.
 */
int relock_nodes_ask(struct relock_topology *topology, struct relock_node *node,
                     const struct relock_text *words, size_t n_words, unsigned forms,
                     uint64_t deadline_ms, struct redisReply **reply, char why[RELOCK_WHY_MAX]);

#endif
