/*
 * The locks that are asked about are those that stand in Redis: the members of a multi lock, and
 * for each red lock among them the members of that. The asking thread finds out first which holds
 * there are the caller's own, then posts all inquiries, and sleeps.
 */
#include "lock/survey.h"

#include "base/clock.h"
#include "base/status.h"
#include "lock/answers.h"
#include "lock/ballot.h"
#include "lock/inquiry.h"
#include "lock/owner.h"
#include "lock/sites.h"

#include <stdlib.h>

/* How soon a server that could not be asked is asked again, and how much longer servers that are
 * slower than a quorum have for an answer. */
#define PAUSE_MS 20

struct relock_survey {
    atomic_uint refs;
    struct relock_group *group; /* a reference; constant */
    struct relock_gate gate;    /* of the asking thread */
    size_t n;                   /* constant */
    struct relock_question questions[];
};

/* ---- life ---------------------------------------------------------------------------------- */

static void add_red(struct relock_survey *survey, struct relock_group *red)
{
    for (size_t i = 0; i < red->n; i++)
        survey->questions[survey->n++] =
            (struct relock_question){.lock = red->members[i], .red = red};
}

static void add_members(struct relock_survey *survey, const struct relock_group *multi)
{
    for (size_t i = 0; i < multi->n; i++) {
        struct relock_lock *member = multi->members[i];

        if (member->site->group)
            add_red(survey, member->site->group);
        else
            survey->questions[survey->n++] = (struct relock_question){.lock = member};
    }
}

static size_t count_servers(const struct relock_group *group)
{
    size_t n = 0;

    if (!group->kind->calls)
        return group->n;
    for (size_t i = 0; i < group->n; i++) {
        const struct relock_group *red = group->members[i]->site->group;

        n += red ? red->n : 1;
    }
    return n;
}

static struct relock_survey *new_survey(struct relock_group *group)
{
    struct relock_survey *new =
        calloc(1, sizeof(*new) + (count_servers(group) * sizeof(struct relock_question)));

    if (!new)
        return NULL;
    atomic_init(&new->refs, 1);
    new->group = relock_group_ref(group);
    relock_gate_init(&new->gate);
    if (group->kind->calls)
        add_members(new, group);
    else
        add_red(new, group);
    return new;
}

struct relock_survey *relock_survey_ref(struct relock_survey *survey)
{
    atomic_fetch_add(&survey->refs, 1);
    return survey;
}

void relock_survey_unref(struct relock_survey *survey)
{
    if (atomic_fetch_sub(&survey->refs, 1) > 1)
        return;
    relock_group_unref(survey->group);
    free(survey);
}

struct relock_lock *relock_survey_lock(const struct relock_survey *survey, size_t nth)
{
    return survey->questions[nth].lock;
}

/* ---- what is the caller's own -------------------------------------------------------------- */

RELOCK_UNCHECKED static void find_hold(struct relock_question *question, uint64_t owner)
{
    struct relock_client *client = question->lock->client;
    const struct relock_hold *hold;
    struct relock_visit visit;

    if (relock_client_enter(client, false, &visit) < 0)
        return;
    hold = relock_site_find(question->lock->site, owner);
    if (hold) {
        question->number = hold->number;
        question->count = hold->count;
    }
    relock_client_leave(client, &visit);
}

RELOCK_UNCHECKED static void find_votes(struct relock_question *questions, uint64_t owner)
{
    struct relock_group *red = questions->red;
    const struct relock_site *site;
    const struct relock_hold *whole;
    struct relock_visit visit;

    if (relock_client_enter(red->home, false, &visit) < 0)
        return;
    site = relock_sites_find_group(red->home, red);
    whole = site ? relock_site_find(site, owner) : NULL;
    for (size_t i = 0; i < red->n && whole && whole->ballot; i++) {
        const struct relock_ballot *ballot = whole->ballot;

        questions[i].count = whole->count;
        questions[i].number = ballot->guarded.votes[i].number;
        questions[i].is_certain = ballot->guarded.votes[i].yes &&
                                  ballot->guarded.votes[i].valid_until_ms > relock_clock_now_ms();
    }
    relock_client_leave(red->home, &visit);
}

static void find_own(struct relock_survey *survey)
{
    uint64_t owner = relock_owner_self();

    for (size_t i = 0; i < survey->n; i += relock_answers_n(&survey->questions[i])) {
        if (survey->questions[i].red)
            find_votes(&survey->questions[i], owner);
        else
            find_hold(&survey->questions[i], owner);
    }
}

/* ---- asking -------------------------------------------------------------------------------- */

RELOCK_UNCHECKED static int post(struct relock_survey *survey, size_t nth)
{
    struct relock_client *client = survey->questions[nth].lock->client;
    struct relock_visit visit;
    int r = relock_client_enter(client, false, &visit);

    if (r < 0)
        return r;
    r = relock_inquiry_post(client, survey, nth, survey->questions[nth].number);
    relock_client_leave(client, &visit);
    return r;
}

/* Those that were not asked, or have to be asked again. */
RELOCK_UNCHECKED static void ask(struct relock_survey *survey)
{
    struct relock_mutex *mutex = &survey->group->home->mutex;

    for (size_t i = 0; i < survey->n; i++) {
        struct relock_question *question = &survey->questions[i];
        bool is_to_be_asked;
        int r;

        relock_mutex_lock(mutex);
        is_to_be_asked = question->state == RELOCK_QUESTION_OPEN;
        if (is_to_be_asked)
            question->state = RELOCK_QUESTION_ASKED;
        relock_mutex_unlock(mutex);
        if (!is_to_be_asked)
            continue;
        r = post(survey, i);
        if (r < 0)
            relock_survey_tell(survey, i, r, NULL);
    }
}

/* ---- answers ------------------------------------------------------------------------------- */

/* The first member with that outcome, NULL when there is none. */
static const struct relock_question *find(const struct relock_survey *survey,
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

RELOCK_UNCHECKED void relock_survey_tell(struct relock_survey *survey, size_t nth, int result,
                                         const struct redisReply *reply)
{
    struct relock_mutex *mutex = &survey->group->home->mutex;
    enum relock_outcome outcome;

    relock_mutex_lock(mutex);
    relock_answers_take(&survey->questions[nth], result, reply);
    outcome = outcome_of_all(survey);
    if (outcome == RELOCK_OUTCOME_FAILED ||
        (outcome == RELOCK_OUTCOME_KNOWN && !is_any_asked(survey)))
        relock_gate_open_under(&survey->gate, mutex);
    relock_mutex_unlock(mutex);
}

/* ---- what they say together ---------------------------------------------------------------- */

static int judge(const struct relock_survey *survey, unsigned count,
                 struct relock_inspection *inspection, char why[RELOCK_WHY_MAX])
{
    const struct relock_group *group = survey->group;
    const struct relock_question *questions = survey->questions;
    const struct relock_question *failed = find(survey, RELOCK_OUTCOME_FAILED);

    if (failed)
        return relock_answers_judge(failed, inspection, why);
    if (!group->kind->calls)
        return relock_answers_judge(questions, inspection, why);
    *inspection = (struct relock_inspection){0};
    for (size_t i = 0; i < group->n; i++) {
        struct relock_inspection member;
        int r = relock_answers_judge(questions, &member, why);

        if (r < 0)
            return r;
        relock_inspection_add(inspection, &member, relock_lock_name(group->members[i]), i == 0);
        questions += relock_answers_n(questions);
    }
    relock_inspection_end(inspection, count);
    return RELOCK_OK;
}

/* Asks until the outcome is known, or the time is over. */
RELOCK_UNCHECKED static void ask_in_time(struct relock_survey *survey, uint64_t deadline_ms)
{
    struct relock_mutex *mutex = &survey->group->home->mutex;
    enum relock_outcome outcome = RELOCK_OUTCOME_OPEN;

    while (outcome == RELOCK_OUTCOME_OPEN && relock_clock_now_ms() < deadline_ms) {
        uint64_t until_ms;

        ask(survey);
        until_ms = relock_clock_after(relock_clock_now_ms(), PAUSE_MS);
        (void)relock_gate_wait(&survey->gate, until_ms < deadline_ms ? until_ms : deadline_ms);
        relock_mutex_lock(mutex);
        outcome = outcome_of_all(survey);
        relock_mutex_unlock(mutex);
    }
}

RELOCK_UNCHECKED int relock_survey_run(struct relock_lock *lock, unsigned count,
                                       struct relock_inspection *inspection,
                                       char why[RELOCK_WHY_MAX])
{
    struct relock_client *home = lock->client;
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t deadline_ms = relock_clock_after(now_ms, home->options.command_timeout_ms);
    struct relock_survey *survey = new_survey(lock->site->group);
    int r;

    why[0] = '\0';
    if (!survey)
        return RELOCK_E_NOMEM;
    find_own(survey);
    ask_in_time(survey, deadline_ms);
    relock_mutex_lock(&home->mutex);
    r = judge(survey, count, inspection, why);
    relock_mutex_unlock(&home->mutex);
    relock_survey_unref(survey);
    return r;
}
