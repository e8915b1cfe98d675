/*
 * Line - the place of this client among the clients that wait for a lock
 *
 * For each lock, Redis keeps a line of the clients that wait for it. A release tells the first
 * client that it is its turn, and the next one that it is first now; the others sleep on. So a
 * release costs the same whether two clients wait or two hundred. docs/wire.md has the keys and
 * messages.
 *
 * A waiter that is refused puts its client in the line. Nothing wakes the first client in the line
 * if the holder does not know the line, or if the client that was told before it is silent. So
 * after 100 ms it listens to the channel of the lock and asks once more.
 *
 * A client without the right to the line or to its inbox (inbox.h) waits outside: it listens to the
 * channel of the lock from the start.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_LINE_H
#define RELOCK_LINE_H

#include "lock/state/client.h"
#include "lock/state/lock.h"
#include "lock/state/resource.h"
#include "lock/state/verdict.h"

/* A waiter of this process was refused; `sent` is the view from before the attempt. */
void relock_line_refused(struct relock_client *client, struct relock_resource *resource,
                         const struct relock_line_view *sent, const struct relock_busy *busy)
    RELOCK_REQUIRES(client->mutex);

/* A command that joins the line got no answer: the client may be in it. */
void relock_line_unanswered(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* A waiter of this process acquired the lock. `has_left`: its script took the client out of the
 * line. */
void relock_line_granted(struct relock_client *client, struct relock_resource *resource,
                         bool has_left) RELOCK_REQUIRES(client->mutex);

/* As relock_line_granted, for a call that stands in the line by a listener. */
void relock_line_granted_to(struct relock_client *client, struct relock_resource *resource,
                            const struct relock_listener *listener) RELOCK_REQUIRES(client->mutex);

/* The local owner released the lock, and the script put the client into the line again, at `place`:
 * 1 if the client is to ask at once; 0 if it is in no line. */
void relock_line_released(struct relock_client *client, struct relock_resource *resource,
                          const struct relock_line_view *sent, uint64_t place)
    RELOCK_REQUIRES(client->mutex);

/* The last waiter of this process may have gone without the lock. */
void relock_line_give_up(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* The place, or a message, may be lost: all waiters for the lock here ask again. */
void relock_line_ask_again(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* This client got a message about a lock for which a call waits here. */
void relock_line_hear(struct relock_client *client, struct relock_resource *resource,
                      struct relock_text verb) RELOCK_REQUIRES(client->mutex);

/* Takes the client out of the line of the lock `name`, as soon as there is a connection. Returns
 * false when out of memory. */
bool relock_line_leave(struct relock_client *client, const char *name, size_t len, const char *side)
    RELOCK_REQUIRES(client->mutex);

/* The server answered without a place: this user has no right to the line. Logs it, once for each
 * client. Unlocks the mutex meanwhile. */
void relock_line_log_missing(struct relock_client *client, const struct relock_lock *lock)
    RELOCK_REQUIRES(client->mutex);

/* The I/O thread has a connection again: leaves the lines that it could not leave before. */
void relock_line_leave_again(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* The I/O thread has ended: drops what was not sent or not answered. */
void relock_line_close(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
