/*
 * Vote command - a command about a vote; its answer changes the vote and the tally
 *
 * The I/O thread of the member's client sends it.
 *
 * Threads: any, with the mutex of the member's client held.
 */
#ifndef RELOCK_VOTE_COMMAND_H
#define RELOCK_VOTE_COMMAND_H

#include "group/vote.h"

enum relock_vote_command_kind {
    RELOCK_VOTE_COMMAND_LOCK,
    RELOCK_VOTE_COMMAND_EXTEND,
    RELOCK_VOTE_COMMAND_UNLOCK,
};

/* Posts it; its answer is counted in the round. Returns false when out of memory. */
bool relock_vote_command_post(struct relock_client *client, struct relock_vote *vote,
                              enum relock_vote_command_kind kind, unsigned round, uint64_t sent_ms)
    RELOCK_REQUIRES(client->mutex);

#endif
