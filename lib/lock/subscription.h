/*
 * Subscription - the channel of a lock, while somebody here waits for it
 *
 * Whoever is refused wants the channel; the I/O thread subscribes. It lingers for a little after
 * the last waiter, so that contention does not churn SUBSCRIBE and UNSUBSCRIBE.
 *
 * Threads: as said at each; with the mutex of the client held, or not.
 */
#ifndef RELOCK_SUBSCRIPTION_H
#define RELOCK_SUBSCRIPTION_H

#include "lock/client.h"

/* Any thread, mutex held. */
void relock_subscription_want(struct relock_client *client, struct relock_site *site)
    RELOCK_REQUIRES(client->mutex);

/* To be called when a waiter or the local owner has gone: the linger may begin. Mutex held. */
void relock_subscription_idle(struct relock_client *client, struct relock_site *site)
    RELOCK_REQUIRES(client->mutex);

/* The linger of a site is over. The I/O thread, mutex held. */
void relock_subscription_fire(struct relock_timer *timer, uint64_t now_ms);

/* Subscribes and unsubscribes what is to be. The I/O thread; gives the mutex up meanwhile. */
void relock_subscription_sync(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
