#include "redis/deployment/eviction.h"

#include "redis/server/reply.h"

#include <stdlib.h>
#include <string.h>

static bool evicts(const char *policy, size_t len)
{
    static const char none[] = "noeviction";

    return len != strlen(none) || memcmp(policy, none, len) != 0;
}

/* "# Memory\r\n...maxmemory:104857600\r\n...maxmemory_policy:allkeys-lru\r\n..." */
void relock_eviction_warn(const struct relock_server *server, const struct redisReply *memory)
{
    const char *limit, *policy;
    size_t len;

    if (!relock_reply_field(memory, "maxmemory", &limit, &len) || strtoull(limit, NULL, 10) == 0)
        return;
    if (!relock_reply_field(memory, "maxmemory_policy", &policy, &len) || !evicts(policy, len))
        return;
    relock_log_write(server->log, RELOCK_LOG_WARNING,
                     "%s: maxmemory-policy is %.*s: a server that is short of memory may evict the "
                     "key of a held lock, and the lock is lost; set maxmemory-policy noeviction",
                     server->label, len < 40 ? (int)len : 40, policy);
}
