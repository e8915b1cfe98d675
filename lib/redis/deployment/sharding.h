/*
 * Sharding - whether waiters in a cluster use sharded channels
 *
 * A client chooses once, before it knows any node: all processes that use a lock must agree, and
 * so must the scripts and the subscriptions of this one.
 *
 * Threads: any.
 */
#ifndef RELOCK_SHARDING_H
#define RELOCK_SHARDING_H

#include "redis/deployment/slot_query.h"

/* By the url of the cluster, or else by the answer of its first node. Logs the choice. */
bool relock_sharding_choose(const struct relock_server *cluster,
                            const struct relock_slot_query *answered);

#endif
