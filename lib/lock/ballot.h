/*
 * Ballot - what the servers of a red lock have said, for one hold of it
 *
 * The hold of the whole is as certain as the weakest vote of its best quorum, and lost when fewer
 * than a quorum still say yes. Votes are asked for in rounds; who waits for one is woken as soon as
 * it is decided, and what is said later still counts for the hold.
 *
 * A ballot is over when the hold is: then a yes that comes late is of no use to anybody, and
 * whoever brings it gives it back.
 *
 * Threads: any. Counted; the rest is guarded by the mutex of the home, which each function that
 * does not require it takes.
 */
#ifndef RELOCK_BALLOT_H
#define RELOCK_BALLOT_H

#include "base/gate.h"
#include "lock/group.h"

#define RELOCK_BALLOT_MAX 9

enum relock_answer {
    RELOCK_ANSWER_YES,
    RELOCK_ANSWER_NO,
    RELOCK_ANSWER_NONE, /* in time, or none that counts */
};

struct relock_ballot {
    atomic_uint refs;
    struct relock_group *group; /* a reference; constant */
    uint64_t owner;             /* constant */
    struct relock_gate gate;    /* of whoever waits for the round */
    struct {
        struct relock_hold *whole; /* NULL: over */
        unsigned round;
        unsigned n_left; /* answers to come in this round */
        unsigned n_yes, n_no;
        unsigned n_refused;                  /* to answer: */
        bool lacks_memory;                   /* here, so one was not asked */
        int refusal;                         /* the result, */
        char why[RELOCK_WHY_MAX];            /* and the words of one of them */
        uint64_t rest_ms[RELOCK_BALLOT_MAX]; /* of the leases in the way, of those that said no */
        int64_t n_heard;                     /* the most that heard of a release on one server */
        uint64_t since_ms; /* who forgot is asked when a quorum has said yes since then, 0: none; */
        uint64_t lost_ms;  /* and since the last vote was lost */
        struct {
            bool yes;                 /* it has the lock for us, as far as is known, */
            uint64_t valid_until_ms;  /* and until then for certain */
            uint64_t sent_ms;         /* what it last said yes to */
            uint64_t number;          /* of the vote that it last said yes to */
            unsigned round;           /* in which it was asked last */
            struct relock_hold *hold; /* a reference; gone with its client: used inside only */
        } votes[RELOCK_BALLOT_MAX];
    } guarded; /* by the mutex of the home */
};

/* For a hold of the home that is about to be asked for. NULL when out of memory. */
struct relock_ballot *relock_ballot_new(struct relock_group *group, struct relock_hold *whole);
struct relock_ballot *relock_ballot_ref(struct relock_ballot *ballot);

/* Under any mutex. */
void relock_ballot_unref(struct relock_ballot *ballot);

/* How many servers make a quorum. */
unsigned relock_ballot_quorum(const struct relock_ballot *ballot);

/* From here on `n` answers of a new round are counted. Returns its number. */
unsigned relock_ballot_begin(struct relock_ballot *ballot, unsigned n)
    RELOCK_REQUIRES(ballot->group->home->mutex);

/* Sleeps until the round is decided, or its time is over. Under no mutex. */
void relock_ballot_wait(struct relock_ballot *ballot, uint64_t deadline_ms);

/* Under no mutex: an answer of this round; a no with the rest of the lease in the way, a yes to a
 * release with how many heard of it. */
void relock_ballot_count(struct relock_ballot *ballot, unsigned round, enum relock_answer answer,
                         int64_t detail);

/* Under no mutex, before it is counted: a server of this round refused to answer, with that result
 * and in these words. */
void relock_ballot_refuse(struct relock_ballot *ballot, unsigned round, int result,
                          const char *why);

/* Why the round failed: what those said that refused, if they stood in the way of a quorum; memory
 * that was short here; else RELOCK_E_CONN. */
int relock_ballot_failure(const struct relock_ballot *ballot)
    RELOCK_REQUIRES(ballot->group->home->mutex);

/*
 * Under no mutex: the server of this vote has the lock for us until then, for certain, as it said
 * to what was sent then. Returns false when the ballot is over, or has asked again: the vote is to
 * be released there.
 */
bool relock_ballot_vote(const struct relock_hold *vote, uint64_t sent_ms, uint64_t valid_until_ms);

/* Under no mutex: it does not have it any more. */
void relock_ballot_lose(struct relock_ballot *ballot, size_t member, unsigned round, int reason);

/* Whether a quorum has said yes to what was sent since then, and since the last vote was lost. */
bool relock_ballot_is_heard(const struct relock_ballot *ballot, uint64_t since_ms)
    RELOCK_REQUIRES(ballot->group->home->mutex);

/* Until when a quorum is certain; 0 when there is none. */
uint64_t relock_ballot_valid_until(const struct relock_ballot *ballot)
    RELOCK_REQUIRES(ballot->group->home->mutex);

#endif
