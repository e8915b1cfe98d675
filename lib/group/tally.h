/*
 * Tally - the answers of the servers of a red lock, for one hold of it
 *
 * The red lock is held for certain as long as the weakest vote of its best quorum, and lost when
 * fewer than a quorum of votes are valid. Votes are requested in rounds. The waiting thread wakes
 * as soon as its round is decided; later answers still count for the hold.
 *
 * A tally ends with its hold. After that it rejects late grants, and the caller releases them.
 *
 * Threads: any. Reference-counted. The mutex of the coordinator guards all other fields; a function
 * that does not require it locks it.
 */
#ifndef RELOCK_TALLY_H
#define RELOCK_TALLY_H

#include "base/gate.h"
#include "group/group.h"
#include "lock/state/kind.h"
#include "lock/state/observer.h"
#include "lock/wake/request.h"

#define RELOCK_TALLY_MAX 9

enum relock_vote_answer {
    RELOCK_ANSWER_YES,
    RELOCK_ANSWER_NO,
    RELOCK_ANSWER_NONE, /* in time, or none that counts */
};

/* The contribution of one server to a round. */
struct relock_tally_report {
    size_t member;
    enum relock_vote_answer answer;
    uint64_t free_at_ms; /* of a no: when the lease in the way ends */
    uint64_t place;      /* of a no: of the client in the line of the lock; 0: not in it */
    bool is_reserved;    /* of a no: the lock is free, and another client was told to acquire it */
    bool is_listening;   /* with `place`: asked as the first in line that listens */
    int64_t n_receivers; /* of a yes to a release: receivers of its message */
    int refusal;     /* the server returned an error, or this process lacks memory: the result */
    const char *why; /* the text of that error */
};

/* One server's part. Lives as long as its hold: a pointer to a vote needs a reference to the hold.
 * All constant. */
struct relock_vote {
    struct relock_observer observer; /* of the hold */
    struct relock_hold *hold;        /* detached, on the client of the member */
    struct relock_tally *tally;      /* a reference */
    size_t member;
    unsigned round; /* in which the library asked for it */
    enum relock_request_wait wait;
};

struct relock_tally {
    struct relock_observer observer; /* of the composite, which has a reference */
    atomic_uint refs;
    struct relock_group *group; /* a reference; constant */
    uint64_t owner;             /* constant */
    struct relock_gate gate; /* of the thread that waits for the round: open once it is decided */
    struct {
        struct relock_hold *composite; /* NULL: the tally is over */
        unsigned round;
        unsigned n_left;      /* answers to come in this round */
        unsigned n_yes, n_no; /* in this round; with earlier answers of servers it does not ask */
        unsigned n_refused;   /* answers that are an error; lack of memory here is one */
        bool lacks_memory;    /* a server was not asked, for lack of memory here */
        int refusal;          /* the result of one of the errors */
        char why[RELOCK_WHY_MAX]; /* the text of the same error */
        int64_t n_receivers;      /* of a release's message: the highest number on one server */
        bool is_barred;  /* in this round the sequencer has refused, because it is the turn of
                            another client: no other vote counts */
        bool is_alone;   /* the refusal of the sequencer decided, whether or not others answered */
        bool is_told;    /* the sequencer has told this client to acquire the lock, so the refusals
                            of others decide nothing before it answers, or is silent for a while */
        bool is_recheck; /* no event caused this attempt. If a quorum grants it although others are
                            first in line, these do not hear that the lock is free */
        /* Missing votes are requested again once a quorum has granted commands sent since then. */
        uint64_t since_ms; /* 0: none is missing */
        uint64_t lost_ms;  /* when the last vote was lost */
        struct {
            bool yes;            /* the server has our vote, as far as this process knows */
            bool is_asked;       /* an attempt is unanswered */
            bool no;             /* its last answer to an attempt was a no */
            uint64_t free_at_ms; /* of that no, like the next two: see the report */
            uint64_t place;
            bool is_listening;
            uint64_t valid_until_ms;  /* the yes is certain until then */
            uint64_t sent_ms;         /* when the command last granted was sent */
            uint64_t number;          /* of the vote last granted */
            unsigned round;           /* in which it was asked last */
            struct relock_vote *vote; /* a reference; gone with its client: used inside only */
        } votes[RELOCK_TALLY_MAX];
    } guarded; /* by the mutex of the coordinator */
};

/* The tally of a red lock's hold; NULL before the first attempt. Mutex of the coordinator held. */
static inline struct relock_tally *relock_tally_of(const struct relock_hold *hold)
{
    return hold->data;
}

/* For a hold of the coordinator that is about to be asked for; the reference is the hold's. NULL
 * when out of memory. */
struct relock_tally *relock_tally_new(struct relock_client *client, struct relock_hold *composite)
    RELOCK_REQUIRES(client->mutex);
struct relock_tally *relock_tally_ref(struct relock_tally *tally);

/* Under any mutex. */
void relock_tally_unref(struct relock_tally *tally);

/* How many servers make a quorum. */
unsigned relock_tally_quorum(const struct relock_tally *tally);

/* How many servers granted their vote, and how many refused it, as far as this process knows. */
unsigned relock_tally_n_yes(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);
unsigned relock_tally_n_no(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* From here on `n` answers of a new round are counted. Returns its number. */
unsigned relock_tally_begin(struct relock_tally *tally, unsigned n)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* Sleeps until the round is decided, or its time is over. Unlocks the mutex meanwhile. */
void relock_tally_wait(struct relock_tally *tally, uint64_t until_ms)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* In a round that asks all: the other votes decide without the sequencer's answer, although it has
 * told this client to acquire the lock. */
void relock_tally_end_turn(struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* A server of this round has answered, or will not answer. Under no mutex. */
void relock_tally_count(struct relock_tally *tally, unsigned round,
                        const struct relock_tally_report *report);

/*
 * Explains a failed round: by an error of the servers, if those that returned one prevented a
 * quorum; by lack of memory here; else as RELOCK_E_CONN, for too few servers answered in time.
 */
void relock_tally_fail(const struct relock_tally *tally, unsigned n_answers,
                       struct relock_answer *answer)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/*
 * Under no mutex: the server granted the command sent at `sent_ms`, so the vote counts until then.
 * Returns false when the tally is over, or has asked this server again: the caller releases the
 * vote there.
 */
bool relock_tally_grant(const struct relock_vote *vote, uint64_t sent_ms, uint64_t valid_until_ms);

/* Under no mutex: the server does not have the vote any more. */
void relock_tally_lose(const struct relock_vote *vote, int reason);

/* Whether a quorum has granted commands sent since then, and since the last vote was lost. */
bool relock_tally_is_heard(const struct relock_tally *tally, uint64_t since_ms)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* Until when a quorum is certain; 0 when there is none. */
uint64_t relock_tally_valid_until(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

#endif
