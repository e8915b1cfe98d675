/*
 * Vote command - a command about a vote; its answer changes the vote and the tally
 *
 * The I/O thread of the member's client sends all of them on its one connection. Redis runs a late
 * acquire before its release, because a vote with an unanswered acquire is settled only after the
 * answer. All other commands about one vote may change places, as they do when a script has to be
 * loaded first. That does no harm: an extension never shortens a lease and sets the same count, and
 * no such command brings back a vote that is released.
 *
 * Threads: any, with the mutex of the member's client held.
 */
#ifndef RELOCK_VOTE_COMMAND_H
#define RELOCK_VOTE_COMMAND_H

#include "group/tally.h"

enum relock_vote_command_kind {
    RELOCK_VOTE_COMMAND_LOCK,
    RELOCK_VOTE_COMMAND_EXTEND,
    RELOCK_VOTE_COMMAND_UNLOCK,
};

/* Posts it; its answer is counted in the round. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_vote_command_post(struct relock_client *client, struct relock_vote *vote,
                             enum relock_vote_command_kind kind, unsigned round, uint64_t sent_ms)
    RELOCK_REQUIRES(client->mutex);

#endif
