#include "lock/wake/listener.h"
#include "lock/wake/private.h"

static struct relock_listener *listeners_of(struct relock_resource *resource)
{
    return relock_resource_contention(relock_resource_with_channel(resource))->listeners;
}

bool relock_listener_add(struct relock_resource *resource, struct relock_listener *listener)
{
    if (!relock_resource_contend(resource))
        return false;
    listener->resource = resource;
    DL_APPEND(relock_resource_with_channel(resource)->contention->listeners, listener);
    return true;
}

void relock_listener_remove(struct relock_resource *resource, struct relock_listener *listener)
{
    DL_DELETE(relock_resource_with_channel(resource)->contention->listeners, listener);
}

bool relock_listeners_wait(const struct relock_resource *resource)
{
    const struct relock_listener *listener;

    DL_FOREACH(relock_resource_contention(resource)->listeners, listener)
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

static void deliver(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_listener *listener = RELOCK_CONTAINER(struct relock_listener, task, task);
    unsigned events = listener->due;

    listener->due = 0;
    relock_mutex_unlock(&client->mutex);
    listener->ops->deliver(listener, events); /* after this it may be gone */
    relock_mutex_lock(&client->mutex);
}

static void notify(struct relock_client *client, struct relock_listener *listener,
                   enum relock_listener_event event) RELOCK_REQUIRES(client->mutex)
{
    if (!listener->ops->notify(listener, event))
        return;
    listener->due |= event;
    listener->task.run = deliver;
    relock_client_post(client, &listener->task);
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
    struct relock_task *task;

    for (;;) {
        DL_SEARCH_SCALAR(client->guarded.tasks, task, run, deliver);
        if (!task)
            return;
        relock_client_take_back(client, task);
        deliver(client, task);
    }
}
