/*
 * Voter - the server of a member, as a red lock asks it for its vote
 *
 * The I/O thread of the member's client sends all commands about votes on its one connection. The
 * server therefore gets them in the order in which they were posted: a late acquire still arrives
 * before its release.
 *
 * A server that leaves a command unanswered beyond its patience is not asked for further votes
 * until it answers. So a server that hangs does not delay a red lock.
 *
 * Threads: any, under no mutex.
 */
#ifndef RELOCK_VOTER_H
#define RELOCK_VOTER_H

#include "group/vote.h"

/* How long a server may take to answer a command about a lock with that lease. */
uint64_t relock_voter_patience_ms(uint64_t lease_ms);

/* Asks a member for its vote. The round counts the answer; the tally gets the vote with a
 * reference, NULL when there is none. */
struct relock_vote *relock_voter_ask(struct relock_tally *tally, size_t member, unsigned round,
                                     const struct relock_vote_terms *terms);

/* Asks for a lease from `sent_ms` on. The round counts the answer. */
void relock_voter_extend(struct relock_tally *tally, size_t member, struct relock_vote *vote,
                         unsigned round, uint64_t sent_ms, uint64_t lease_ms);

/* Releases the vote, and drops the reference. The round counts the answer. */
void relock_voter_release(struct relock_tally *tally, size_t member, struct relock_vote *vote,
                          unsigned round);

/* From now on the watchdog renews the vote, or no longer does. */
void relock_voter_keep(struct relock_client *client, struct relock_vote *vote, bool renewed);

/* Releases an unneeded vote in the background, if the server may have it; drops the reference. */
void relock_voter_drop(struct relock_client *client, struct relock_vote *vote);

#endif
