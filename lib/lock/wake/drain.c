#include "lock/wake/wake.h"

#include "lock/state/hold.h"
#include "lock/state/resource.h"
#include "lock/state/step.h"
#include "lock/wake/listener.h"
#include "lock/wake/private.h"

bool relock_drain_has_hold(const struct relock_client *client, uint64_t owner)
{
    const struct relock_hold *hold;

    RELOCK_HOLDS_FOREACH(client, hold)
    {
        bool is_collected = !hold->is_own && !hold->observers;

        if (hold->owner == owner && relock_hold_is_held(hold) && !hold->detached && !is_collected)
            return true;
    }
    return false;
}

bool relock_drain_admits(const struct relock_client *client, uint64_t owner, bool is_vouched)
{
    switch (client->guarded.state) {
    case RELOCK_CLIENT_OPEN:
        return true;
    case RELOCK_CLIENT_SHUT_DOWN:
        return is_vouched || relock_drain_has_hold(client, owner);
    case RELOCK_CLIENT_FREED:
        break;
    }
    return false;
}

void relock_drain_wake(struct relock_client *client)
{
    const struct relock_client_hook *hook;
    const struct relock_hold *hold;
    struct relock_resource *resource = NULL;

    RELOCK_HOOKS_FOREACH(client, hook, end_waits)
    {
        hook->ops->end_waits(client);
    }
    /* A call that waits until a command about a hold has ended. */
    RELOCK_HOLDS_FOREACH(client, hold)
    {
        relock_step_pass(hold);
        relock_step_stop(hold);
    }
    while ((resource = relock_resources_next(client, resource))) {
        struct relock_resource *readers = relock_resource_readers(resource);

        relock_resource_wake_all(resource);
        /* Calls of a layer above stand in its line, and go on without this client. */
        relock_listeners_tell(client, resource, RELOCK_HEARD_STANDING, NULL);
        if (readers)
            relock_listeners_tell(client, readers, RELOCK_HEARD_STANDING, NULL);
    }
}

void relock_drain_left(struct relock_client *client, uint64_t owner)
{
    if (client->guarded.state == RELOCK_CLIENT_SHUT_DOWN && !relock_drain_has_hold(client, owner))
        relock_drain_wake(client);
}
