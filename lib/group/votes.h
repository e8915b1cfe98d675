/*
 * Votes - the votes of all servers for one tally: requested together, and released together
 *
 * Threads: as each function says.
 */
#ifndef RELOCK_VOTES_H
#define RELOCK_VOTES_H

#include "group/vote.h"

/* Asks all members that are `wanted`, and puts their votes into the tally. Unlocks the mutex
 * meanwhile. */
void relock_votes_ask(struct relock_tally *tally, const bool wanted[RELOCK_TALLY_MAX],
                      const struct relock_vote_terms *terms)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* Takes the votes out of the tally, which is over. */
void relock_votes_take(struct relock_tally *tally, struct relock_vote *votes[RELOCK_TALLY_MAX])
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* Releases each server's vote, known or not: the tally is over. Unlocks the mutex meanwhile. */
void relock_votes_release(struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

#endif
