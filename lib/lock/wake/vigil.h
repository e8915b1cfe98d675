/*
 * Vigil - waiters for a lock whose releases nobody publishes sleep until Redis reports a change
 *
 * When the head of the queue was refused, the I/O thread reads the lock over a connection that is
 * tracked (redis/io/tracking.h). While the vigil is on, the head sleeps like one that listens to a
 * channel: until a report, or until the lease ends or `recheck_ms` have passed. While the vigil is
 * off, the head polls.
 *
 * Threads: with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_VIGIL_H
#define RELOCK_VIGIL_H

#include "lock/state/client.h"
#include "lock/state/resource.h"

/* The head of this queue was refused. Does nothing for other kinds. */
void relock_vigil_want(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* Whether the lock was held, and Redis reports when it is not any more. */
static inline bool relock_vigil_is_on(const struct relock_resource *resource)
{
    return resource->vigil.state == RELOCK_VIGIL_ON;
}

/* Redis reports that this key has changed, `len` bytes; NULL: perhaps all have. */
void relock_vigil_hear(struct relock_client *client, const char *key, size_t len)
    RELOCK_REQUIRES(client->mutex);

/* This client has changed the lock, which Redis reports to other clients only: see watchdog.h. */
void relock_vigil_spend(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* The node tracks from now on, or no longer does. In both cases it has forgotten all keys that it
 * was to report. */
void relock_vigil_tracking(struct relock_client *client, const struct relock_node *node, bool is_on)
    RELOCK_REQUIRES(client->mutex);

/* Locks may have other nodes now. The I/O thread. */
void relock_vigil_follow(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
