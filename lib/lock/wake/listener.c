#include "lock/wake/listener.h"

static struct relock_listener *listeners_of(struct relock_resource *resource)
{
    return relock_resource_with_channel(resource)->listeners;
}

void relock_listener_add(struct relock_resource *resource, struct relock_listener *listener)
{
    listener->resource = resource;
    DL_APPEND(relock_resource_with_channel(resource)->listeners, listener);
}

void relock_listener_remove(struct relock_resource *resource, struct relock_listener *listener)
{
    DL_DELETE(relock_resource_with_channel(resource)->listeners, listener);
}

bool relock_listeners_wait(const struct relock_resource *resource)
{
    const struct relock_listener *listener;

    DL_FOREACH(resource->listeners, listener)
    if (listener->n_waiting > 0)
        return true;
    return false;
}

static bool stands(const struct relock_listener *listener, const struct relock_resource *resource)
{
    return listener->resource == resource && listener->n_standing > 0;
}

bool relock_listeners_await(struct relock_resource *resource)
{
    const struct relock_listener *listener;

    if (resource->queue)
        return true;
    DL_FOREACH(listeners_of(resource), listener)
    if (stands(listener, resource))
        return true;
    return false;
}

/* ---- notices ------------------------------------------------------------------------------- */

static void notify(struct relock_client *client, struct relock_listener *listener,
                   enum relock_listener_event event) RELOCK_REQUIRES(client->mutex)
{
    if (!listener->ops->notify(listener, event))
        return;
    if (listener->due == 0)
        LL_PREPEND2(client->guarded.due, listener, next_due);
    listener->due |= event;
    relock_client_wake(client); /* this may not be the I/O thread, which delivers */
}

void relock_listeners_hear(struct relock_client *client, struct relock_resource *resource,
                           enum relock_listener_event event)
{
    struct relock_listener *listener;

    DL_FOREACH(listeners_of(resource), listener)
    notify(client, listener, event);
}

void relock_listeners_tell(struct relock_client *client, struct relock_resource *resource,
                           enum relock_listener_event event, const struct relock_listener *besides)
{
    struct relock_listener *listener;

    DL_FOREACH(listeners_of(resource), listener)
    {
        if (listener != besides && stands(listener, resource))
            notify(client, listener, event);
    }
}

void relock_listeners_deliver(struct relock_client *client)
{
    struct relock_listener *listener;

    while ((listener = client->guarded.due)) {
        unsigned events = listener->due;

        LL_DELETE2(client->guarded.due, listener, next_due);
        listener->due = 0;
        relock_mutex_unlock(&client->mutex);
        listener->ops->deliver(listener, events); /* after this it may be gone */
        relock_mutex_lock(&client->mutex);
    }
}
