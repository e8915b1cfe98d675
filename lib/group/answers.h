/*
 * Answers - the answers of a member's servers in a survey
 *
 * A lock on one server has one question; a red lock has one for each of its servers, and they stand
 * together. The functions take the first of them.
 *
 * Threads: as each field says; the functions with the mutex of the survey's coordinator held.
 */
#ifndef RELOCK_ANSWERS_H
#define RELOCK_ANSWERS_H

#include "group/group.h"
#include "lock/state/inspection.h"
#include "lock/wake/outbox.h"

/*
 * Opinion - the holder of a multi or red lock, concluded from the answers about its members
 *
 * Threads: any; these are pure functions.
 */

/* The answer of one server of a red lock. */
struct relock_opinion {
    bool is_known; /* the server answered */
    bool is_ours;  /* it has the caller's vote */
    struct relock_inspection inspection;
};

/*
 * For a multi lock: `composite` begins as all 0, takes the members in order, and is ended with the
 * caller's levels. The lock is held if any member is.
 */
void relock_opinion_add(struct relock_inspection *composite, const struct relock_inspection *member,
                        const char *name, bool is_first);
void relock_opinion_end(struct relock_inspection *composite, unsigned count);

/*
 * For a red lock with `n` members, of which the caller has `count` levels. At least a quorum of the
 * opinions must be known. The lock is free if a quorum of servers say so; else it becomes free when
 * enough leases have ended for a quorum.
 */
struct relock_inspection relock_opinion_of_red(const struct relock_opinion *opinions, size_t n,
                                               unsigned count);

struct redisReply;
struct relock_survey;

enum relock_question_state {
    RELOCK_QUESTION_OPEN, /* to be posted, perhaps again */
    RELOCK_QUESTION_ASKED,
    RELOCK_QUESTION_ANSWERED,
    RELOCK_QUESTION_REFUSED, /* and asking again is no use */
};

struct relock_survey_question {
    struct relock_outbox_entry entry; /* of the client of the lock; posted while ASKED */

    struct relock_survey *survey; /* that it is a question of; constant */

    /* constant; the group of the survey keeps both */
    struct relock_lock *lock;
    struct relock_group *red; /* the red lock that it is a member of; NULL: none */

    /* constant once the first is asked */
    uint64_t number; /* of the caller's hold or vote; 0: none */
    unsigned count;  /* levels that the caller has of it, or of the red lock */
    bool is_certain; /* the vote is certain for now, also against the server's answer */

    /* guarded by the mutex of the coordinator */
    enum relock_question_state state;
    int failure; /* the last one */
    char why[RELOCK_WHY_MAX];
    struct relock_inspection inspection;
};

enum relock_outcome {
    RELOCK_OUTCOME_OPEN,   /* further answers may change it */
    RELOCK_OUTCOME_KNOWN,  /* no further answer is needed */
    RELOCK_OUTCOME_FAILED, /* no further answer can help */
};

/* The number of questions about the member. Under any mutex. */
size_t relock_answers_n(const struct relock_survey_question *questions);

/* Returns whether the question is open: from now on it is asked. */
bool relock_answers_ask(struct relock_survey_question *question);

/* Takes the result of one question. */
void relock_answers_take(struct relock_survey_question *question, int result,
                         const struct redisReply *reply);

enum relock_outcome relock_answers_outcome(const struct relock_survey_question *questions);

/* The conclusion from all answers. Returns RELOCK_OK; or a failure and why, if too few answered. */
int relock_answers_judge(const struct relock_survey_question *questions,
                         struct relock_inspection *inspection, char why[RELOCK_WHY_MAX]);

#endif
