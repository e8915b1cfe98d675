/*
 * Scan - finds all keys of some types, on all servers, whose names match a pattern
 *
 * Threads: the one that looks.
 */
#ifndef RELOCK_SCAN_H
#define RELOCK_SCAN_H

#include "look/sight.h"

struct relock_node;
struct redisReply;

/* Takes a page of keys, an array, of this node. Returns RELOCK_OK, a failure, or RELOCK_SCAN_END:
 * no further page is wanted. */
#define RELOCK_SCAN_END 1
typedef int relock_scan_fn(void *arg, struct relock_node *node, const struct redisReply *keys);

/* `types` ends with NULL. Returns RELOCK_OK, a failure of `fn`, or one of relock_nodes_ask. */
int relock_scan(struct relock_sight *sight, struct relock_text pattern, const char *const *types,
                relock_scan_fn *fn, void *arg);

#endif
