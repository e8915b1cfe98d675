/*
 * Errand - a command about a vote, which the I/O thread of its client runs
 *
 * Errands go out in the order in which they are posted, on one connection.
 *
 * Threads: any, with the mutex of the client held, but for what is said otherwise.
 */
#ifndef RELOCK_ERRAND_H
#define RELOCK_ERRAND_H

#include "lock/vote.h"

enum relock_errand_kind {
    RELOCK_ERRAND_LOCK,
    RELOCK_ERRAND_EXTEND,
    RELOCK_ERRAND_UNLOCK,
};

/* To be sent as soon as the I/O thread looks; the round counts the answer. Returns false when there
 * is no memory. */
bool relock_errand_post(struct relock_client *client, struct relock_hold *hold,
                        enum relock_errand_kind kind, unsigned round, uint64_t sent_ms)
    RELOCK_REQUIRES(client->mutex);

/* Whether the server has left an errand unanswered for longer than it has for one. */
bool relock_errand_hangs(const struct relock_client *client, const struct relock_vote_terms *terms)
    RELOCK_REQUIRES(client->mutex);

/* Sends what is to be sent. The I/O thread; gives the mutex up meanwhile. */
void relock_errand_send_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* At the end of a client, after its I/O thread: nothing is sent or answered any more. Gives the
 * mutex up meanwhile. */
void relock_errand_drop_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
