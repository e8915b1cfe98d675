#include "kind/reentrant.h"

const struct relock_kind relock_kind_reentrant = {
    RELOCK_KIND_BY_LOCK_LUA,
    .channel = RELOCK_CHANNEL_LOCK,
};

int relock_lock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &relock_kind_reentrant, name, lock);
}
