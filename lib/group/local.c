#include "group/local.h"

#include <assert.h>
#include <stdlib.h>

int relock_local_attach(struct relock_client *client, const struct relock_client_hook_ops *ops)
{
    struct relock_local *local;

    if (atomic_load(&client->hook))
        return RELOCK_OK;
    local = calloc(1, sizeof(*local));
    if (!local)
        return RELOCK_E_NOMEM;
    local->hook.ops = ops;
    atomic_store(&client->hook, &local->hook);
    return RELOCK_OK;
}

struct relock_local *relock_local_of(const struct relock_client *client)
{
    struct relock_client_hook *hook = atomic_load(&client->hook);

    assert(hook);
    return (struct relock_local *)((char *)hook - offsetof(struct relock_local, hook));
}

void relock_local_free(struct relock_client_hook *hook)
{
    free((char *)hook - offsetof(struct relock_local, hook));
}
