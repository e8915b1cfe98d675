/*
 * Eviction - warns of a server that may evict the key of a held lock
 *
 * Every policy except noeviction may do so, because such a key has a lease. A server without
 * `maxmemory` evicts nothing.
 *
 * Threads: any.
 */
#ifndef RELOCK_EVICTION_H
#define RELOCK_EVICTION_H

#include "redis/server/server.h"

struct redisReply;

/* `memory` is the reply to INFO memory. An error, or a reply without these fields, is ignored. */
void relock_eviction_warn(const struct relock_server *server, const struct redisReply *memory);

#endif
