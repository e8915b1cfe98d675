/*
 * Vote - one server's part in a red lock
 *
 * A hold of a member, on the client of that member, which no owner there has: it is asked for and
 * given up by the client's I/O thread, on the one connection of that, so the server gets the
 * commands in the order in which they were meant: a lock that is late comes before its release all
 * the same. The watchdog renews it like any hold. What becomes of it the ballot is told.
 *
 * A server that has left an errand unanswered for its time is not asked for further votes until it
 * answers: one that hangs costs a red lock nothing.
 *
 * Threads: any, under no mutex, but for what is said otherwise.
 */
#ifndef RELOCK_VOTE_H
#define RELOCK_VOTE_H

#include "lock/ballot.h"

/* With the hold, which has a pointer to it. All constant. */
struct relock_vote {
    struct relock_ballot *ballot; /* a reference */
    size_t member;
    unsigned round; /* in which it was asked for */
};

/* How a vote is asked for. */
struct relock_vote_terms {
    uint64_t sent_ms;
    uint64_t lease_ms;
    uint64_t cap_ms; /* renewed until then */
    bool renewed;
};

/* So long a server has for an answer about a lock with that lease. */
uint64_t relock_vote_patience_ms(uint64_t lease_ms);

/* Asks a member for its vote. The round counts the answer; the hold, with a reference, is the
 * ballot's, NULL when there is none. */
struct relock_hold *relock_vote_ask(struct relock_ballot *ballot, size_t member, unsigned round,
                                    const struct relock_vote_terms *terms);

/* Asks for a lease from `sent_ms` on. The round counts the answer. */
void relock_vote_extend(struct relock_ballot *ballot, size_t member, struct relock_hold *hold,
                        unsigned round, uint64_t sent_ms, uint64_t lease_ms);

/* Releases it. The round counts the answer. The reference goes. */
void relock_vote_release(struct relock_ballot *ballot, size_t member, struct relock_hold *hold,
                         unsigned round);

/* The watchdog renews it from now on, too. */
void relock_vote_keep(struct relock_client *client, struct relock_hold *hold);

/* Nobody wants it: released in the background, if the server may have it. The reference goes. */
void relock_vote_drop(struct relock_client *client, struct relock_hold *hold);

/* The same with the mutex of the client held; the reference stays. */
void relock_vote_abandon(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* It was lost: the ballot is told. The I/O thread, mutex held and given up meanwhile. */
void relock_vote_tell(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* The watchdog has renewed it: the ballot is told. The I/O thread. */
void relock_vote_renewed(struct relock_hold *hold, uint64_t sent_ms, uint64_t valid_until_ms);

/* With its hold. Takes NULL. */
void relock_vote_free(struct relock_vote *vote);

#endif
