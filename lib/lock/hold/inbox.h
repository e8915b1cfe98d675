/*
 * Inbox - the channel whose messages tell a client that it is its turn
 *
 * A client has one inbox for all its locks, and subscribes to it when a waiter is refused for the
 * first time, or at its start if it keeps locks. While the inbox is open, the client can stand in
 * the lines of locks (line.h).
 *
 * Threads: any, with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_INBOX_H
#define RELOCK_INBOX_H

#include "lock/state/client.h"

/* Whether Redis has acknowledged the subscription: no message is missed. */
static inline bool relock_inbox_is_open(const struct relock_client *client)
    RELOCK_REQUIRES(client->mutex)
{
    return client->guarded.inbox == RELOCK_INBOX_OPEN;
}

/* Whether the user may not subscribe to it, so the client waits outside of all lines. */
static inline bool relock_inbox_is_refused(const struct relock_client *client)
    RELOCK_REQUIRES(client->mutex)
{
    return client->guarded.inbox == RELOCK_INBOX_REFUSED;
}

/* For a waiter that was refused. Returns false if the server refuses the subscription. */
bool relock_inbox_want(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* For the client of a cluster: it waits outside of all lines. A node does not count the subscribers
 * of other nodes, so no script could tell whether a client in line still lives. Call this before
 * the threads of the client start. */
void relock_inbox_do_without(struct relock_client *client);

#endif
