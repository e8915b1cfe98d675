#include "lock/state/kind.h"

#include "redis/server/reply.h"

#include <stdio.h>

bool relock_inspection_read(const struct redisReply *reply, struct relock_inspection *inspection)
{
    struct relock_holder *holder = &inspection->holder;
    const char *id;
    size_t len;
    int64_t hold_count;
    int64_t n_holders;
    int64_t own_count;
    int64_t other_side = 0; /* only read/write locks have it */

    *inspection = (struct relock_inspection){0};
    if (!relock_reply_text(relock_reply_at(reply, 0), &id, &len) ||
        !relock_reply_integer(relock_reply_at(reply, 1), &hold_count) ||
        !relock_reply_integer(relock_reply_at(reply, 2), &n_holders) ||
        !relock_reply_integer(relock_reply_at(reply, 3), &holder->ttl_ms) ||
        !relock_reply_integer(relock_reply_at(reply, 4), &own_count))
        return false;
    (void)relock_reply_integer(relock_reply_at(reply, 5), &other_side);
    (void)snprintf(holder->id, sizeof(holder->id), "%.*s", (int)len, id);
    holder->hold_count = (unsigned)hold_count;
    holder->n_holders = (unsigned)n_holders;
    holder->other_side = other_side != 0;
    inspection->is_locked = n_holders > 0 && !holder->other_side;
    inspection->own_count = (unsigned)own_count;
    return true;
}

void relock_inspection_count(struct relock_inspection *inspection, const struct relock_kind *kind,
                             unsigned count)
{
    if (kind->has_token_only && inspection->own_count > 0)
        inspection->own_count = inspection->holder.hold_count = count;
}
