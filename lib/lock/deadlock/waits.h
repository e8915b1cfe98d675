/*
 * Waits - records in Redis the waits of this client that last for long
 *
 * Other clients follow these records when they look for deadlocks (chain.h). A wait is recorded
 * when it has lasted for `deadlock_ms`, if its owner holds other locks meanwhile. As long as such
 * waits last, the record is sent again a few times a second, each time with a higher beat. It is
 * sent only after the answer to the one before. So a client without such waits sends nothing.
 * docs/wire.md has the format.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_WAITS_H
#define RELOCK_WAITS_H

#include "lock/state/client.h"
#include "lock/state/resource.h"

#define RELOCK_RECORD_BEAT_MS 250 /* between two times that a record is sent */

/* Before the client is used. */
void relock_waits_init(struct relock_client *client);

/* The waiter is about to sleep for the first time. */
void relock_waits_enter(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);

/* The wait is over. */
void relock_waits_leave(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);

/* Whether Redis has nothing of this client, and owes no answer. */
bool relock_waits_are_drained(const struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* The I/O thread has ended. */
void relock_waits_close(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
