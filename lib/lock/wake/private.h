/*
 * Private - what the files of lib/lock/wake share, and nobody else
 *
 * What a header of this folder says of a module and its threads holds for its part here, too.
 */
#ifndef RELOCK_WAKE_PRIVATE_H
#define RELOCK_WAKE_PRIVATE_H

#include "base/decimal.h"
#include "lock/state/client.h"
#include "lock/state/keys.h"
#include "lock/state/resource.h"
#include "lock/wake/listener.h"
#include "redis/lane/call.h"
#include "redis/server/command.h"

#include <stdbool.h>
#include <stddef.h>

struct redisReply;
struct relock_outbox_entry;
struct relock_request;

/* ---- request --------------------------------------------------------------------------------- */

/* Publishes a message on a sharded channel. */
void relock_request_publish(struct relock_request *request, struct relock_text channel,
                            const char *message);

/* Takes the client out of the line of a lock. `side` of a read/write lock, or NULL. */
void relock_request_leave(struct relock_request *request, const struct relock_client *client,
                          const char *name, size_t len, const char *side);

/* ---- line ------------------------------------------------------------------------------------ */

/* As relock_line_ask_again, for both sides of a read/write lock. */
void relock_line_ask_again_both(struct relock_client *client, struct relock_resource *primary)
    RELOCK_REQUIRES(client->mutex);

/* In a cluster: an inbox of this client got a message, which may be about another lock with the
 * same tag. */
void relock_line_hear_text(struct relock_client *client, struct relock_resource *primary,
                           const char *text, size_t len) RELOCK_REQUIRES(client->mutex);

/* An entry of `leaving` was answered: posts it again with the next connection, or after a pause, if
 * it was not taken and may be yet. Returns whether it does. */
bool relock_line_put_off(struct relock_client *client, struct relock_outbox_entry *entry,
                         int result, const struct redisReply *reply) RELOCK_REQUIRES(client->mutex);

/* ---- listener -------------------------------------------------------------------------------- */

/* Whether a call keeps the channel subscribed. */
bool relock_listeners_wait(const struct relock_resource *resource);

/* Notifies the listeners whose calls stand in the line, except `besides`, which may be NULL. The
 * event comes from the inbox or from the line. */
void relock_listeners_tell(struct relock_client *client, struct relock_resource *resource,
                           enum relock_listener_event event, const struct relock_listener *besides)
    RELOCK_REQUIRES(client->mutex);

#endif
