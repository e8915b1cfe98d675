#include "lock/listener.h"

void relock_listener_add(struct relock_resource *resource, struct relock_listener *listener)
{
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

struct relock_listener *relock_listeners_notify(struct relock_resource *resource, bool is_message)
{
    struct relock_listener *due = NULL;
    struct relock_listener *listener;

    DL_FOREACH(resource->listeners, listener)
    {
        if (listener->ops->notify(listener, is_message)) {
            listener->next_due = due;
            due = listener;
        }
    }
    return due;
}

void relock_listeners_deliver(struct relock_listener *due, bool is_message)
{
    while (due) {
        struct relock_listener *next = due->next_due;

        due->ops->deliver(due, is_message); /* after this it may be gone */
        due = next;
    }
}
