/*
 * Drain - which owners still acquire after relock_client_shutdown
 *
 * An owner that holds a lock of the client may need further ones to finish its work, so its calls
 * go on until it holds none. All other calls are refused, and no owner without a hold can get one.
 * So each owner comes to its end.
 *
 * Locks that a multi lock has collected so far are held by no owner yet. Each client counts its own
 * holds only.
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_DRAIN_H
#define RELOCK_DRAIN_H

#include "lock/state/client.h"

/* Whether the owner has a lock of this client that is not lost. */
bool relock_drain_has_hold(const struct relock_client *client, uint64_t owner)
    RELOCK_REQUIRES(client->mutex);

/* Whether the owner may acquire a lock, or go on waiting for one. `is_vouched`: it acquires for a
 * call on another client, where it has a hold. */
bool relock_drain_admits(const struct relock_client *client, uint64_t owner, bool is_vouched)
    RELOCK_REQUIRES(client->mutex);

/* Wakes all waits: each checks whether it is still admitted. */
void relock_drain_wake(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* A hold of the owner has ended or is lost. */
void relock_drain_left(struct relock_client *client, uint64_t owner) RELOCK_REQUIRES(client->mutex);

#endif
