#include "redis/deployment/sharding.h"

bool relock_sharding_choose(const struct relock_server *cluster,
                            const struct relock_slot_query *answered)
{
    enum relock_url_pubsub wanted = cluster->url.pubsub;
    bool is_sharded = wanted == RELOCK_URL_PUBSUB_SHARDED;
    const char *why = "the url says so";

    if (wanted == RELOCK_URL_PUBSUB_AUTO) {
        is_sharded = *answered->not_sharded == '\0';
        why = is_sharded ? "the cluster has them" : answered->not_sharded;
    }
    relock_log_write(cluster->log, RELOCK_LOG_INFO,
                     "%s: waiters use %s channels (%s); programs that use the other form wake them "
                     "late, so set ?pubsub= in all urls if they differ",
                     cluster->label, is_sharded ? "sharded" : "plain", why);
    return is_sharded;
}
