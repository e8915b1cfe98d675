#include "group/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/holds.h"
#include "lock/state/resource.h"

#include <assert.h>

int relock_local_attach(struct relock_client *client)
{
    if (relock_client_hook_of(client, &relock_local_ops) ||
        relock_client_attach(client, &relock_local_ops, sizeof(struct relock_local)))
        return RELOCK_OK;
    return RELOCK_E_NOMEM;
}

struct relock_local *relock_local_of(const struct relock_client *client)
{
    struct relock_client_hook *hook = relock_client_hook_of(client, &relock_local_ops);

    assert(hook);
    return RELOCK_CONTAINER(struct relock_local, hook, hook);
}

/* ---- composites ---------------------------------------------------------------------------- */

struct relock_resource *relock_local_find(struct relock_client *client,
                                          const struct relock_group *group)
{
    struct relock_group *found;

    HASH_FIND(hh, relock_local_of(client)->groups, group->key, group->key_size, found);
    return found ? found->resource : NULL;
}

static void remove_group(struct relock_client *client, void *data) RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = data;

    HASH_DEL(relock_local_of(client)->groups, group);
    group->resource = NULL;
    relock_group_unref(group);
}

int relock_local_get(struct relock_client *client, struct relock_group *group,
                     const struct relock_resource *named, struct relock_resource **resource)
{
    struct relock_resource *found = relock_local_find(client, group);

    if (found) {
        found->refs++;
        *resource = found;
        return RELOCK_OK;
    }
    HASH_ADD_KEYPTR(hh, relock_local_of(client)->groups, group->key, group->key_size, group);
    if (!group->hh.tbl)
        return RELOCK_E_NOMEM;
    group->resource = relock_resources_new_unlisted(client, group->kind, named, group->lease_ms,
                                                    group, remove_group);
    if (!group->resource) {
        HASH_DEL(relock_local_of(client)->groups, group);
        return RELOCK_E_NOMEM;
    }
    (void)relock_group_ref(group);
    *resource = group->resource;
    return RELOCK_OK;
}

static struct relock_hold *find_held(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_group *group;
    struct relock_hold *hold;

    for (group = relock_local_of(client)->groups; group; group = group->hh.next) {
        LL_FOREACH(group->resource->holds, hold)
        if (hold->count > 0)
            return hold;
    }
    return NULL;
}

void relock_local_let_go(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    while ((hold = find_held(client)))
        relock_let_go(client, hold, now_ms);
}
