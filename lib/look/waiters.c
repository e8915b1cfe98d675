/* relock_waiters: the waiters for a lock. */
#include "lock/state/keys.h"
#include "lock/state/lock.h"
#include "look/sight.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <string.h>

#define MOST 10000 /* entries that are read */

/* An entry of the line ends with the side of a read/write lock. */
static int side_of(const char *id)
{
    const char *side = strrchr(id, ':');

    if (side && strcmp(side + 1, RELOCK_SIDE_READ) == 0)
        return RELOCK_SIDE_OF_READERS;
    return side && strcmp(side + 1, RELOCK_SIDE_WRITE) == 0 ? RELOCK_SIDE_OF_WRITERS : 0;
}

static bool show(struct relock_sight *sight, const struct redisReply *reply, size_t at,
                 relock_waiters_fn *fn, void *arg)
{
    const struct redisReply *entry = relock_reply_at(reply, at);
    struct relock_waiter_info info = {.client_name = sight->peer, .place = (unsigned)(at - 1) / 2};
    const char *id;
    size_t len;

    if (!entry || !relock_reply_text(entry, &id, &len) ||
        !relock_reply_integer(relock_reply_at(reply, at + 1), &info.gone_in_ms))
        return false;
    info.id = id;
    info.side = side_of(id);
    info.is_told = relock_reply_is(relock_reply_at(reply, 2), id);
    relock_names_find(&sight->names, id, sight->peer);
    return fn(&info, arg);
}

int relock_waiters(struct relock_client *client, const char *name, relock_waiters_fn *fn, void *arg)
{
    struct relock_sight sight;
    struct relock_call call;
    char key[RELOCK_NAME_MAX + 1];
    size_t len;
    int r;

    if (!client || !fn)
        return relock_client_refuse(client, "relock_waiters: `fn` is NULL");
    if (!relock_keys_join(key, client->options.name_prefix, client->prefix_len, name, &len))
        return relock_client_refuse(client, relock_keys_invalid(name));
    if (!relock_sight_begin(&sight, client))
        return sight.result;
    r = relock_sight_ask(&sight, (struct relock_text){key, len}, MOST, &call);
    for (size_t at = 3; r == RELOCK_OK && show(&sight, call.reply, at, fn, arg); at += 2)
        ;
    relock_call_end(&call);
    return relock_sight_end(&sight, r);
}
