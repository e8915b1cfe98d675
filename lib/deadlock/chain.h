/*
 * Chain - follows waits from client to client, to find those that close a cycle
 *
 * A look begins with the waits of this client that are published (published.h). It asks Redis who
 * holds these locks, then for which locks the owners of these holds wait, and so on. It reads the
 * waits of this client from memory.
 *
 * The chain ends at a hold whose owner does not wait. It also ends at a hold for which no client
 * publishes waits: one with a fixed lease, or one of another library.
 *
 * The look ends with the last answer. Then each published wait of this client is searched in its
 * graph. A wait that closes a cycle as its victim gets a proof, which the next looks continue or
 * drop. The wait is refused when its proof is complete; wait_graph.h says when that is. The next
 * look follows soon while there are proofs, and later otherwise.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */
#ifndef RELOCK_CHAIN_H
#define RELOCK_CHAIN_H

#include "deadlock/published.h"
#include "deadlock/wait_graph.h"

/* Between two looks that find nothing, at most. */
#define RELOCK_PROOFS_LATER_MS 1000

/* Whether the hold can be part of a cycle: its owner still waits here, and has the hold for certain
 * and without a fixed lease. */
bool relock_chain_counts(const struct relock_published_hold *held, uint64_t now_ms);

/* The argument of waits_behind.lua for a lock of this kind. */
const char *relock_chain_form(const struct relock_kind *kind);

/* Writes the key of the hash of the client with this id; returns its length. */
#define RELOCK_CHAIN_KEY_MAX 64
size_t relock_chain_key(char out[RELOCK_CHAIN_KEY_MAX], const char *id, size_t len);

/* Takes a look, unless one is in progress. The end of the look sets `look_at_ms`. */
void relock_chain_follow(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
