#include "kind/reentrant.h"

/* As a reentrant lock in Redis, so both exclude each other; but a release is not published. */
static const struct relock_kind spin = {
    RELOCK_KIND_LIKE_REENTRANT,
    .lock = &relock_script_lock,
    .is_polled = true,
    .is_handed_off = true,
};

int relock_spinlock_new(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    return relock_lock_make(client, &spin, name, lock);
}
