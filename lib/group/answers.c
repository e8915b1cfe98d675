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
#include "group/opinion.h"
#include "group/tally.h"
#include "redis/server/reply.h"

#include <stdio.h>

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
