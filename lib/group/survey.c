/*
 * A survey asks about locks that have a key in Redis: the members of a multi lock and, for each red
 * lock among them, its members. The calling thread first finds the holds of the owner, then posts
 * all questions to the I/O threads of their clients, and sleeps.
 */
#include "group/survey.h"

#include "base/clock.h"
#include "base/status.h"
#include "group/answers.h"
#include "group/local.h"
#include "group/tally.h"

#include <stdlib.h>

/* The pause before an unreachable server is asked again, and the extra time of servers that are
 * slower than a quorum. */
#define PAUSE_MS 20

/* A server that is slower than this is given no further questions until it has answered. */
#define HANGS_MS 500

struct relock_survey {
    atomic_uint refs;           /* answers may come after the asking thread has left */
    struct relock_group *group; /* a reference; constant */
    struct relock_gate gate;    /* of the asking thread */
    size_t n;                   /* constant */
    struct relock_survey_question questions[];
};

/* ---- life ---------------------------------------------------------------------------------- */

static void add_red(struct relock_survey *survey, struct relock_group *red)
{
    for (size_t i = 0; i < red->n; i++)
        survey->questions[survey->n++] =
            (struct relock_survey_question){.lock = red->members[i], .red = red};
}

static void add_members(struct relock_survey *survey, const struct relock_group *multi)
{
    for (size_t i = 0; i < multi->n; i++) {
        struct relock_lock *member = multi->members[i];

        if (relock_group_of(member->resource))
            add_red(survey, relock_group_of(member->resource));
        else
            survey->questions[survey->n++] = (struct relock_survey_question){.lock = member};
    }
}

static size_t count_servers(const struct relock_group *group)
{
    size_t n = 0;

    if (!group->kind->is_collection)
        return group->n;
    for (size_t i = 0; i < group->n; i++) {
        const struct relock_group *red = relock_group_of(group->members[i]->resource);

        n += red ? red->n : 1;
    }
    return n;
}

static struct relock_survey *new_survey(struct relock_group *group)
{
    struct relock_survey *new =
        calloc(1, sizeof(*new) + (count_servers(group) * sizeof(struct relock_survey_question)));

    if (!new)
        return NULL;
    atomic_init(&new->refs, 1);
    new->group = relock_group_ref(group);
    relock_gate_init(&new->gate);
    if (group->kind->is_collection)
        add_members(new, group);
    else
        add_red(new, group);
    for (size_t i = 0; i < new->n; i++)
        new->questions[i].survey = new;
    return new;
}

static void unref(struct relock_survey *survey)
{
    if (atomic_fetch_sub(&survey->refs, 1) > 1)
        return;
    relock_group_unref(survey->group);
    free(survey);
}

/* ---- the owner's levels -------------------------------------------------------------------- */

static void find_hold(struct relock_survey_question *question, uint64_t owner)
{
    struct relock_client *client = question->lock->client;
    const struct relock_hold *hold;
    struct relock_guard guard;

    if (!relock_client_enter(client, false, &guard))
        return;
    hold = relock_resource_find(question->lock->resource, owner);
    if (hold) {
        question->number = hold->number;
        question->count = hold->count;
    }
    relock_client_leave(client, &guard);
}

static void find_votes(struct relock_survey_question *questions, uint64_t owner)
{
    struct relock_group *red = questions->red;
    const struct relock_resource *resource;
    const struct relock_hold *composite;
    struct relock_guard guard;

    if (!relock_client_enter(red->coordinator, false, &guard))
        return;
    resource = relock_local_find(red->coordinator, red);
    composite = resource ? relock_resource_find(resource, owner) : NULL;
    for (size_t i = 0; i < red->n && composite && relock_tally_of(composite); i++) {
        const struct relock_tally *tally = relock_tally_of(composite);

        questions[i].count = composite->count;
        questions[i].number = tally->guarded.votes[i].number;
        questions[i].is_certain = tally->guarded.votes[i].yes &&
                                  tally->guarded.votes[i].valid_until_ms > relock_clock_now_ms();
    }
    relock_client_leave(red->coordinator, &guard);
}

static void find_own(struct relock_survey *survey, uint64_t owner)
{
    for (size_t i = 0; i < survey->n; i += relock_answers_n(&survey->questions[i])) {
        if (survey->questions[i].red)
            find_votes(&survey->questions[i], owner);
        else
            find_hold(&survey->questions[i], owner);
    }
}

/* ---- answers ------------------------------------------------------------------------------- */

/* The first member with that outcome; NULL if there is none. */
static const struct relock_survey_question *find(const struct relock_survey *survey,
                                                 enum relock_outcome outcome)
{
    for (size_t i = 0; i < survey->n; i += relock_answers_n(&survey->questions[i]))
        if (relock_answers_outcome(&survey->questions[i]) == outcome)
            return &survey->questions[i];
    return NULL;
}

static enum relock_outcome outcome_of_all(const struct relock_survey *survey)
{
    if (find(survey, RELOCK_OUTCOME_FAILED))
        return RELOCK_OUTCOME_FAILED;
    return find(survey, RELOCK_OUTCOME_OPEN) ? RELOCK_OUTCOME_OPEN : RELOCK_OUTCOME_KNOWN;
}

static bool is_any_asked(const struct relock_survey *survey)
{
    for (size_t i = 0; i < survey->n; i++)
        if (survey->questions[i].state == RELOCK_QUESTION_ASKED)
            return true;
    return false;
}

static void tell(struct relock_survey_question *question, int result,
                 const struct redisReply *reply)
{
    struct relock_survey *survey = question->survey;
    struct relock_mutex *mutex = &survey->group->coordinator->mutex;
    enum relock_outcome outcome;

    relock_mutex_lock(mutex);
    relock_answers_take(question, result, reply);
    outcome = outcome_of_all(survey);
    if (outcome == RELOCK_OUTCOME_FAILED ||
        (outcome == RELOCK_OUTCOME_KNOWN && !is_any_asked(survey)))
        relock_gate_open_under(&survey->gate, mutex);
    relock_mutex_unlock(mutex);
}

/* ---- asking -------------------------------------------------------------------------------- */

static bool write_command(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    const struct relock_survey_question *question = (const struct relock_survey_question *)entry;

    relock_request_inspect(request, question->lock->resource, question->number);
    return true;
}

static void answer(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                   const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    struct relock_survey_question *question = (struct relock_survey_question *)entry;
    struct relock_survey *survey = question->survey;

    relock_mutex_unlock(&client->mutex);
    tell(question, result, reply); /* from here on it may be posted again */
    unref(survey);
    relock_mutex_lock(&client->mutex);
}

static void drop(struct relock_client *client, struct relock_outbox_entry *entry)
    RELOCK_REQUIRES(client->mutex)
{
    answer(client, entry, RELOCK_E_CLOSED, NULL);
}

static const struct relock_outbox_ops ops = {
    .write = write_command,
    .answer = answer,
    .drop = drop,
};

/* Returns RELOCK_OK, and the question is answered once; or why it cannot be asked now. */
static int post(struct relock_survey_question *question)
{
    struct relock_client *client = question->lock->client;
    struct relock_outbox *outbox;
    struct relock_guard guard;
    bool hangs;

    if (!relock_client_enter(client, false, &guard))
        return guard.result;
    outbox = &relock_local_of(client)->inquiries;
    hangs = relock_outbox_hangs(outbox, relock_clock_now_ms(), HANGS_MS);
    if (!hangs) {
        atomic_fetch_add(&question->survey->refs, 1);
        question->entry = (struct relock_outbox_entry){.ops = &ops};
        relock_outbox_post(client, outbox, &question->entry);
    }
    relock_client_leave(client, &guard);
    return hangs ? RELOCK_E_CONN : RELOCK_OK;
}

/* Posts the questions that are open. */
static void ask(struct relock_survey *survey)
{
    struct relock_mutex *mutex = &survey->group->coordinator->mutex;

    for (size_t i = 0; i < survey->n; i++) {
        struct relock_survey_question *question = &survey->questions[i];
        bool is_to_be_asked;
        int r;

        relock_mutex_lock(mutex);
        is_to_be_asked = relock_answers_ask(question);
        relock_mutex_unlock(mutex);
        if (!is_to_be_asked)
            continue;
        r = post(question);
        if (r < 0)
            tell(question, r, NULL);
    }
}

/* ---- all answers together ------------------------------------------------------------------ */

static int judge(const struct relock_survey *survey, unsigned count,
                 struct relock_inspection *inspection, char why[RELOCK_WHY_MAX])
{
    const struct relock_group *group = survey->group;
    const struct relock_survey_question *questions = survey->questions;
    const struct relock_survey_question *failed = find(survey, RELOCK_OUTCOME_FAILED);

    if (failed)
        return relock_answers_judge(failed, inspection, why);
    if (!group->kind->is_collection)
        return relock_answers_judge(questions, inspection, why);
    *inspection = (struct relock_inspection){0};
    for (size_t i = 0; i < group->n; i++) {
        struct relock_inspection member;
        int r = relock_answers_judge(questions, &member, why);

        if (r < 0)
            return r;
        relock_opinion_add(inspection, &member, relock_lock_name(group->members[i]), i == 0);
        questions += relock_answers_n(questions);
    }
    relock_opinion_end(inspection, count);
    return RELOCK_OK;
}

/* Asks until the outcome is known, or the time is over. */
static void ask_in_time(struct relock_survey *survey, uint64_t deadline_ms)
{
    struct relock_mutex *mutex = &survey->group->coordinator->mutex;
    enum relock_outcome outcome = RELOCK_OUTCOME_OPEN;

    while (outcome == RELOCK_OUTCOME_OPEN && relock_clock_now_ms() < deadline_ms) {
        ask(survey);
        (void)relock_gate_wait(&survey->gate,
                               relock_clock_sooner(relock_clock_in(PAUSE_MS), deadline_ms));
        relock_mutex_lock(mutex);
        outcome = outcome_of_all(survey);
        relock_mutex_unlock(mutex);
    }
}

int relock_survey_run(struct relock_lock *lock, const struct relock_claim *claim,
                      struct relock_inspection *inspection, char why[RELOCK_WHY_MAX])
{
    struct relock_client *coordinator = lock->client;
    uint64_t deadline_ms = relock_clock_in(coordinator->options.command_timeout_ms);
    struct relock_survey *survey = new_survey(relock_group_of(lock->resource));
    int r;

    if (!survey)
        return RELOCK_E_NOMEM;
    find_own(survey, claim->owner);
    ask_in_time(survey, deadline_ms);
    relock_mutex_lock(&coordinator->mutex);
    r = judge(survey, claim->count, inspection, why);
    relock_mutex_unlock(&coordinator->mutex);
    unref(survey);
    return r;
}
