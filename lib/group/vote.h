/*
 * Vote - one server's part in a red lock
 *
 * A vote is a detached hold of one member, on that member's client. The watchdog renews it like any
 * hold. The vote observes it and reports every renewal and its loss to the tally.
 *
 * Threads: any, as said at each function.
 */
#ifndef RELOCK_VOTE_H
#define RELOCK_VOTE_H

#include "group/tally.h"

/* Lives as long as its hold: a pointer to a vote needs a reference to the hold. All constant. */
struct relock_vote {
    struct relock_observer observer; /* of the hold */
    struct relock_hold *hold;
    struct relock_tally *tally; /* a reference */
    size_t member;
    unsigned round; /* in which the library asked for it */
};

/* How a vote is asked for. */
struct relock_vote_terms {
    uint64_t sent_ms;
    uint64_t lease_ms;
    uint64_t cap_ms; /* renewed until then */
    bool renewed;
};

/* A vote about to be asked for, on the member's client. NULL when out of memory. */
struct relock_vote *relock_vote_new(struct relock_client *client, struct relock_tally *tally,
                                    size_t member, unsigned round,
                                    const struct relock_vote_terms *terms)
    RELOCK_REQUIRES(client->mutex);

/* The vote that observes this hold, NULL when none does. Mutex of its client held. */
struct relock_vote *relock_vote_of(const struct relock_hold *hold);

/*
 * Under no mutex: the server granted the command sent at `sent_ms`, so the vote counts until then.
 * Returns false if the tally has no use for it: the caller releases the vote.
 */
bool relock_vote_count(const struct relock_vote *vote, uint64_t sent_ms, uint64_t valid_until_ms);

#endif
