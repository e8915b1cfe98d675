/*
 * Subscription - to the channel of a lock, while a waiter of this process needs it
 *
 * A waiter that is refused wants the channel, and the I/O thread subscribes to it. The subscription
 * ends a little later than its last use, so that contention does not churn SUBSCRIBE and
 * UNSUBSCRIBE. The state is in the resource, and changed here alone.
 *
 * Threads: any, with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_SUBSCRIPTION_H
#define RELOCK_SUBSCRIPTION_H

#include "lock/state/client.h"

/* Whether Redis has acknowledged the subscription: no message is missed. */
bool relock_subscription_is_active(struct relock_resource *resource);

/* For a waiter that was refused. Does nothing if releases are not published. */
void relock_subscription_want(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* To be called when a waiter or the local owner is gone: the subscription ends a little later if
 * nothing else uses it. */
void relock_subscription_idle(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

#endif
