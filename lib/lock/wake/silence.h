/*
 * Silence - ends waits when Redis has not answered for `command_timeout_ms`
 *
 * Only the head of a queue asks Redis, and not while a local owner holds the lock. So the I/O
 * thread pings while calls wait, twice in that time, and ends all their waits alike. A waiter that
 * does not wait for the server of its client finds out for itself which servers are unreachable.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_SILENCE_H
#define RELOCK_SILENCE_H

#include "lock/state/client.h"

/* Before the I/O thread starts; without the mutex. */
void relock_silence_init(struct relock_client *client);

/*
 * A wait begins, at its `joined_ms`. Its ping is mostly due before any renewal. So a program that
 * acquires and releases a lock all the time wakes the I/O thread for each ping, not for each lock.
 */
void relock_silence_wait_begins(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);

/* The wait is over. */
void relock_silence_wait_ends(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);

#endif
