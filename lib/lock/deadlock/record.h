/*
 * Record - one of the two hashes in Redis that show for what the owners of this client wait
 *
 * waits.c says which holds are in them, and when they are sent. docs/wire.md has the format.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_RECORD_H
#define RELOCK_RECORD_H

#include "lock/state/client.h"
#include "lock/state/resource.h"

#define RELOCK_RECORD_BEAT_MS 250 /* between two times that a record is sent */

/* Sends a record, or nothing if it is empty and Redis has none. One at a time of each. Returns
 * false if there is no memory. The I/O thread. */
bool relock_record_send(struct relock_client *client, unsigned which)
    RELOCK_REQUIRES(client->mutex);

/* Sets the timer of the waits to the first of its times. */
void relock_record_arm(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
