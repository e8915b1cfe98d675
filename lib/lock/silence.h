/*
 * Silence - ends waits when Redis has not answered for `command_timeout_ms`
 *
 * Only the head of a queue asks Redis, and not while an owner of this process holds. So while
 * anybody waits the I/O thread pings, twice in that time, and tells all waiters alike.
 *
 * A waiter for a red lock is not among them: its servers are several, and it asks them all.
 *
 * Threads: with the mutex of the client held, but for what is said otherwise.
 */
#ifndef RELOCK_SILENCE_H
#define RELOCK_SILENCE_H

#include "lock/client.h"

/* Before the first wait. */
void relock_silence_init(struct relock_client *client);

/* A wait begins, at its `joined_ms`; it is over. */
void relock_silence_enter(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);
void relock_silence_leave(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);

#endif
