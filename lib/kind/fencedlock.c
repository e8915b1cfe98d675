#include "kind/reentrant.h"

/* A reentrant lock whose script gives each hold a token. So each has to be asked for in Redis. */
static const struct relock_kind fenced = {
    RELOCK_KIND_LIKE_REENTRANT,
    .lock = &relock_script_fenced_lock,
    .channel = RELOCK_CHANNEL_LOCK,
};

int relock_fencedlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &fenced, name, lock);
}
