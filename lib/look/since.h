/*
 * Since - records in Redis since when the holds of a client are held, for operators
 *
 * A hold that has lasted for long gets a field in a hash of its client, in the same slot for all:
 * so the lock's own key and its scripts stay as they are, and a short hold costs nothing. The hash
 * lives as long as leases do. A number is never used again, so fields of ended holds do no harm;
 * when half of them are such, the hash is written anew.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_LOOK_SINCE_H
#define RELOCK_LOOK_SINCE_H

#include "lock/state/client.h"

/* Attaches the layer to a client that is being made. Returns RELOCK_OK or RELOCK_E_NOMEM. */
int relock_since_attach(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
