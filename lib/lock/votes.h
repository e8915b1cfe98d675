/*
 * Votes - those of all servers for one ballot: asked for together, and given back together
 *
 * Threads: as said at each.
 */
#ifndef RELOCK_VOTES_H
#define RELOCK_VOTES_H

#include "lock/vote.h"

/* Asks all members that are `wanted`, and hands the ballot what they may give. Gives the mutex up
 * meanwhile. */
void relock_votes_ask(struct relock_ballot *ballot, const bool wanted[RELOCK_BALLOT_MAX],
                      const struct relock_vote_terms *terms)
    RELOCK_REQUIRES(ballot->group->home->mutex);

/* Takes the votes out of the ballot, which is over. */
void relock_votes_take(struct relock_ballot *ballot, struct relock_hold *votes[RELOCK_BALLOT_MAX])
    RELOCK_REQUIRES(ballot->group->home->mutex);

/* Gives each server's vote back, whatever it was: the ballot is over. Gives the mutex up meanwhile.
 */
void relock_votes_give_back(struct relock_ballot *ballot)
    RELOCK_REQUIRES(ballot->group->home->mutex);

#endif
