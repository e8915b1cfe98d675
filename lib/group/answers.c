/*
 * The states of a question. This file alone changes them.
 *
 *   state      becomes     when
 *   OPEN       ASKED       the survey posts it: relock_answers_ask
 *   ASKED      ANSWERED    the server has answered: relock_answers_take
 *              OPEN        the failure may pass: take
 *              REFUSED     it will not: take
 */
#include "group/answers.h"

#include "base/status.h"
#include "group/group.h"
#include "group/tally.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <string.h>

/* ---- opinion ------------------------------------------------------------------------------- */

#define FREE_MS (-2)
#define NO_LEASE_MS (-1)

/* When a lock with that lease becomes free, for comparisons. */
static int64_t free_in(int64_t ttl_ms)
{
    return ttl_ms == NO_LEASE_MS ? INT64_MAX : ttl_ms;
}

/* ---- multi locks --------------------------------------------------------------------------- */

void relock_opinion_add(struct relock_inspection *composite, const struct relock_inspection *member,
                        const char *name, bool is_first)
{
    int64_t ttl_ms = composite->holder.ttl_ms;

    if (is_first || free_in(member->holder.ttl_ms) > free_in(ttl_ms))
        ttl_ms = member->holder.ttl_ms;
    if (composite->holder.n_holders == 0 && member->holder.n_holders > 0) {
        composite->holder = member->holder;
        composite->holder.member = name;
    }
    composite->holder.ttl_ms = ttl_ms;
    composite->is_locked = composite->is_locked || member->is_locked;
    if (is_first || member->own_count < composite->own_count)
        composite->own_count = member->own_count;
}

void relock_opinion_end(struct relock_inspection *composite, unsigned count)
{
    if (count < composite->own_count)
        composite->own_count = count;
}

/* ---- red locks ----------------------------------------------------------------------------- */

/* The least time in which so many of the servers that answered are free. */
static int64_t quorum_is_free_in(const struct relock_opinion *opinions, size_t n, unsigned quorum)
{
    int64_t soonest_ms = NO_LEASE_MS;

    for (size_t i = 0; i < n; i++) {
        int64_t ttl_ms = opinions[i].inspection.holder.ttl_ms;
        unsigned n_free = 0;

        for (size_t j = 0; j < n; j++)
            n_free += opinions[j].is_known &&
                      free_in(opinions[j].inspection.holder.ttl_ms) <= free_in(ttl_ms);
        if (opinions[i].is_known && n_free >= quorum && free_in(ttl_ms) < free_in(soonest_ms))
            soonest_ms = ttl_ms;
    }
    return soonest_ms;
}

/* The holder that most servers name; of several the first. */
static const struct relock_holder *most_named(const struct relock_opinion *opinions, size_t n)
{
    const struct relock_holder *found = NULL;
    unsigned n_most = 0;

    for (size_t i = 0; i < n; i++) {
        const struct relock_holder *holder = &opinions[i].inspection.holder;
        unsigned n_votes = 0;

        if (!opinions[i].is_known || holder->n_holders == 0)
            continue;
        /* Each of our votes has its own id. */
        for (size_t j = 0; j < n; j++)
            n_votes +=
                opinions[j].is_known && ((opinions[i].is_ours && opinions[j].is_ours) ||
                                         strcmp(opinions[j].inspection.holder.id, holder->id) == 0);
        if (n_votes > n_most) {
            n_most = n_votes;
            found = holder;
        }
    }
    return found;
}

struct relock_inspection relock_opinion_of_red(const struct relock_opinion *opinions, size_t n,
                                               unsigned count)
{
    unsigned quorum = relock_group_quorum(n);
    struct relock_inspection composite = {.holder = {.ttl_ms = FREE_MS}};
    const struct relock_holder *holder = most_named(opinions, n);
    unsigned n_ours = 0;
    unsigned n_unlocked = 0;
    int64_t ttl_ms = quorum_is_free_in(opinions, n, quorum);

    for (size_t i = 0; i < n; i++) {
        n_ours += opinions[i].is_ours;
        n_unlocked += opinions[i].is_known && !opinions[i].inspection.is_locked;
    }
    composite.is_locked = n_unlocked < quorum;
    composite.own_count = n_ours >= quorum ? count : 0;
    if (holder && ttl_ms != FREE_MS) {
        composite.holder = *holder;
        composite.holder.ttl_ms = ttl_ms;
        if (composite.own_count > 0 && holder->n_holders == 1)
            composite.holder.hold_count = composite.own_count;
    }
    return composite;
}

/* ---- answers ------------------------------------------------------------------------------- */

size_t relock_answers_n(const struct relock_survey_question *questions)
{
    return questions->red ? questions->red->n : 1;
}

static unsigned quorum_of(const struct relock_survey_question *question)
{
    return relock_group_quorum(relock_answers_n(question));
}

/* ---- the outcome --------------------------------------------------------------------------- */

struct count {
    unsigned answered, refused, open;
    unsigned free, locked, other_side; /* of those that answered; `locked` counts our votes, too */
};

/* Whether the server has the caller's vote: by its answer, or because this process knows for
 * certain. */
static bool is_ours(const struct relock_survey_question *question)
{
    return question->state == RELOCK_QUESTION_ANSWERED ? question->inspection.own_count > 0
                                                       : question->is_certain;
}

static struct count count_answers(const struct relock_survey_question *questions)
{
    struct count count = {0};

    for (size_t i = 0; i < relock_answers_n(questions); i++) {
        const struct relock_survey_question *question = &questions[i];

        if (question->state != RELOCK_QUESTION_ANSWERED) {
            count.open += question->state != RELOCK_QUESTION_REFUSED;
            count.refused += question->state == RELOCK_QUESTION_REFUSED;
            count.locked += is_ours(question);
            continue;
        }
        count.answered++;
        count.free += question->inspection.holder.n_holders == 0;
        count.locked += question->inspection.is_locked;
        count.other_side += question->inspection.holder.other_side;
    }
    return count;
}

enum relock_outcome relock_answers_outcome(const struct relock_survey_question *questions)
{
    struct count count = count_answers(questions);
    unsigned quorum = quorum_of(questions);

    if (count.refused >= quorum)
        return RELOCK_OUTCOME_FAILED;
    if (count.open == 0)
        return RELOCK_OUTCOME_KNOWN;
    if (count.answered < quorum)
        return RELOCK_OUTCOME_OPEN;
    return count.free >= quorum || count.locked >= quorum || count.other_side >= quorum
               ? RELOCK_OUTCOME_KNOWN
               : RELOCK_OUTCOME_OPEN;
}

/* ---- one answer ---------------------------------------------------------------------------- */

/* Whether the failure may pass with time. */
static bool is_passing(int failure, const char *error)
{
    enum relock_refusal refusal = error ? relock_refusal_of(error) : RELOCK_REFUSED;

    return failure == RELOCK_E_CONN || refusal == RELOCK_REFUSED_FOR_NOW ||
           refusal == RELOCK_REFUSED_HERE;
}

bool relock_answers_ask(struct relock_survey_question *question)
{
    if (question->state != RELOCK_QUESTION_OPEN)
        return false;
    question->state = RELOCK_QUESTION_ASKED;
    return true;
}

void relock_answers_take(struct relock_survey_question *question, int result,
                         const struct redisReply *reply)
{
    const char *error = reply ? relock_reply_error(reply) : NULL;

    if (result == RELOCK_OK && !relock_inspection_read(reply, &question->inspection)) {
        result = RELOCK_E_SERVER;
        error = RELOCK_VERDICT_UNREADABLE;
    }
    if (result == RELOCK_OK) {
        relock_inspection_count(&question->inspection, question->lock->resource->kind,
                                question->count);
        question->state = RELOCK_QUESTION_ANSWERED;
        question->failure = RELOCK_OK;
        return;
    }
    question->state = is_passing(result, error) ? RELOCK_QUESTION_OPEN : RELOCK_QUESTION_REFUSED;
    question->failure = result;
    (void)snprintf(question->why, sizeof(question->why), "%s", error ? error : "");
}

/* ---- all together -------------------------------------------------------------------------- */

/* Too few answered: the refusal, if refusals prevented a quorum; else RELOCK_E_CONN. */
static int fail(const struct relock_survey_question *questions, char why[RELOCK_WHY_MAX])
{
    size_t n = relock_answers_n(questions);
    const struct relock_survey_question *refused = NULL;
    size_t n_refused = 0;

    for (size_t i = 0; i < n; i++) {
        if (questions[i].failure < 0 && questions[i].failure != RELOCK_E_CONN) {
            refused = &questions[i];
            n_refused++;
        }
    }
    if (refused && n_refused >= quorum_of(questions)) {
        (void)snprintf(why, RELOCK_WHY_MAX, "%s", refused->why);
        return refused->failure;
    }
    (void)snprintf(why, RELOCK_WHY_MAX, "%u of %zu servers answered in time",
                   count_answers(questions).answered, n);
    return RELOCK_E_CONN;
}

int relock_answers_judge(const struct relock_survey_question *questions,
                         struct relock_inspection *inspection, char why[RELOCK_WHY_MAX])
{
    struct relock_opinion opinions[RELOCK_TALLY_MAX] = {0};

    if (count_answers(questions).answered < quorum_of(questions))
        return fail(questions, why);
    *inspection = questions->inspection;
    if (!questions->red)
        return RELOCK_OK;
    for (size_t i = 0; i < questions->red->n; i++)
        opinions[i] = (struct relock_opinion){
            .is_known = questions[i].state == RELOCK_QUESTION_ANSWERED,
            .is_ours = is_ours(&questions[i]),
            .inspection = questions[i].inspection,
        };
    *inspection = relock_opinion_of_red(opinions, questions->red->n, questions->count);
    return RELOCK_OK;
}
