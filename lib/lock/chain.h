/*
 * Chain - follows waits from client to client, to find those that close a cycle
 *
 * A look begins with the waits of this client that are recorded (waits.h). It asks Redis who holds
 * these locks, what the owners of these holds are waiting for, and so on. What it knows about this
 * client's own waits comes from memory. With the last answer the look ends, and proofs.h draws the
 * conclusion.
 *
 * The chain ends at a hold whose owner does not wait, or of which nobody records that: a hold with
 * a fixed lease, or one of another library.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */
#ifndef RELOCK_CHAIN_H
#define RELOCK_CHAIN_H

#include "lock/client.h"
#include "lock/resource.h"

/* Whether the owner of the hold, which waits here, stands in the way of others. */
bool relock_chain_counts(const struct relock_recorded_hold *held, uint64_t now_ms);

/* The argument of waits_behind.lua for a lock of this kind. */
const char *relock_chain_form(const struct relock_kind *kind);

/* Writes the key of the record of the client with this id; returns its length. */
#define RELOCK_CHAIN_KEY_MAX 64
size_t relock_chain_key(char out[RELOCK_CHAIN_KEY_MAX], const char *id, size_t len);

/* Takes a look, unless one is under way. Sets `look_at_ms` when it has ended. */
void relock_chain_look(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

bool relock_chain_is_idle(const struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* No answer will come any more. */
void relock_chain_free(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
