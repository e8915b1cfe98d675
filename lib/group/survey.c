/*
 * A survey asks about locks that have a key in Redis: the members of a multi lock and, for each red
 * lock among them, its members. The calling thread first finds the holds of the owner, then posts
 * all questions to the I/O threads of their clients, and sleeps.
 */
#include "group/private.h"

#include "base/clock.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The states of a question. This file alone changes them. Functions that take the first question of
 * a member act on all of them, with the mutex of the coordinator held.
 *
 *   state      becomes     when
 *   OPEN       ASKED       the survey posts it: ask
 *   ASKED      ANSWERED    the server has answered: take_answer
 *              OPEN        the failure may pass: take_answer
 *              REFUSED     it will not: take_answer
 */
enum question_state {
    QUESTION_OPEN, /* to be posted, perhaps again */
    QUESTION_ASKED,
    QUESTION_ANSWERED,
    QUESTION_REFUSED, /* and asking again is no use */
};

struct question {
    struct relock_outbox_entry entry; /* of the client of the lock; posted while ASKED */

    struct survey *survey; /* that it is a question of; constant */

    /* constant; the group of the survey keeps both */
    struct relock_lock *lock;
    struct relock_group *red; /* the red lock that it is a member of; NULL: none */

    /* constant once the first is asked */
    uint64_t number; /* of the caller's hold or vote; 0: none */
    unsigned count;  /* levels that the caller has of it, or of the red lock */
    bool is_certain; /* the vote is certain for now, also against the server's answer */

    /* guarded by the mutex of the coordinator */
    enum question_state state;
    int failure; /* the last one */
    char why[RELOCK_WHY_MAX];
    struct relock_inspection inspection;
};

struct survey {
    atomic_uint refs;           /* answers may come after the asking thread has left */
    struct relock_group *group; /* a reference; constant */
    struct relock_gate gate;    /* of the asking thread */
    size_t n;                   /* constant */
    struct question questions[];
};

enum outcome {
    OUTCOME_OPEN,   /* further answers may change it */
    OUTCOME_KNOWN,  /* no further answer is needed */
    OUTCOME_FAILED, /* no further answer can help */
};

/* The pause before an unreachable server is asked again, and the extra time of servers that are
 * slower than a quorum. */
#define PAUSE_MS 20

/* A server that is slower than this is given no further questions until it has answered. */
#define HANGS_MS 500

/* In place of a lease. */
#define FREE_MS (-2)
#define NO_LEASE_MS (-1)

/* When a lock with that lease becomes free, for comparisons. */
static int64_t free_in(int64_t ttl_ms)
{
    return ttl_ms == NO_LEASE_MS ? INT64_MAX : ttl_ms;
}

/* ---- multi locks --------------------------------------------------------------------------- */

void relock_opinion_add(struct relock_inspection *composite, const struct relock_inspection *member,
                        const char *name)
{
    int64_t ttl_ms = composite->holder.ttl_ms;

    if (free_in(member->holder.ttl_ms) > free_in(ttl_ms))
        ttl_ms = member->holder.ttl_ms;
    if (composite->holder.n_holders == 0 && member->holder.n_holders > 0) {
        composite->holder = member->holder;
        composite->holder.member = name;
    }
    composite->holder.ttl_ms = ttl_ms;
    composite->is_locked = composite->is_locked || member->is_locked;
    if (member->own_count < composite->own_count)
        composite->own_count = member->own_count;
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

/* ---- the questions about a member ---------------------------------------------------------- */

/* The number of questions about the member. Under any mutex. */
static size_t n_questions(const struct question *questions)
{
    return questions->red ? questions->red->n : 1;
}

static unsigned quorum_of(const struct question *question)
{
    return relock_group_quorum(n_questions(question));
}

/* ---- the outcome for a member -------------------------------------------------------------- */

struct count {
    unsigned answered, refused, open;
    unsigned free, locked, other_side; /* of those that answered; `locked` counts our votes, too */
};

/* Whether the server has the caller's vote: by its answer, or because this process knows for
 * certain. */
static bool is_ours(const struct question *question)
{
    return question->state == QUESTION_ANSWERED ? question->inspection.own_count > 0
                                                : question->is_certain;
}

static struct count count_answers(const struct question *questions)
{
    struct count count = {0};

    for (size_t i = 0; i < n_questions(questions); i++) {
        const struct question *question = &questions[i];

        if (question->state != QUESTION_ANSWERED) {
            count.open += question->state != QUESTION_REFUSED;
            count.refused += question->state == QUESTION_REFUSED;
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

static enum outcome outcome_of(const struct question *questions)
{
    struct count count = count_answers(questions);
    unsigned quorum = quorum_of(questions);

    if (count.refused >= quorum)
        return OUTCOME_FAILED;
    if (count.open == 0)
        return OUTCOME_KNOWN;
    if (count.answered < quorum)
        return OUTCOME_OPEN;
    return count.free >= quorum || count.locked >= quorum || count.other_side >= quorum
               ? OUTCOME_KNOWN
               : OUTCOME_OPEN;
}

/* ---- one answer ---------------------------------------------------------------------------- */

/* Whether the failure may pass with time. */
static bool is_passing(int failure, const char *error)
{
    enum relock_refusal refusal = error ? relock_refusal_of(error) : RELOCK_REFUSED;

    return failure == RELOCK_E_CONN || refusal == RELOCK_REFUSED_FOR_NOW ||
           refusal == RELOCK_REFUSED_HERE;
}

/* Takes the result of one question. */
static void take_answer(struct question *question, int result, const struct redisReply *reply)
{
    const char *error = reply ? relock_reply_error(reply) : NULL;

    if (result == RELOCK_OK && !relock_inspection_read(reply, &question->inspection)) {
        result = RELOCK_E_SERVER;
        error = RELOCK_VERDICT_UNREADABLE;
    }
    if (result == RELOCK_OK) {
        relock_inspection_count(&question->inspection, question->lock->resource->kind,
                                question->count);
        question->state = QUESTION_ANSWERED;
        question->failure = RELOCK_OK;
        return;
    }
    question->state = is_passing(result, error) ? QUESTION_OPEN : QUESTION_REFUSED;
    question->failure = result;
    (void)snprintf(question->why, sizeof(question->why), "%s", error ? error : "");
}

/* ---- the conclusion about a member --------------------------------------------------------- */

/* Too few answered: the refusal, if refusals prevented a quorum; else RELOCK_E_CONN. */
static int fail(const struct question *questions, char why[RELOCK_WHY_MAX])
{
    size_t n = n_questions(questions);
    const struct question *refused = NULL;
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

/* The conclusion from all answers. Returns RELOCK_OK; or a failure and why, if too few answered. */
static int judge_member(const struct question *questions, struct relock_inspection *inspection,
                        char why[RELOCK_WHY_MAX])
{
    struct relock_opinion opinions[RELOCK_TALLY_MAX] = {0};

    if (count_answers(questions).answered < quorum_of(questions))
        return fail(questions, why);
    *inspection = questions->inspection;
    if (!questions->red)
        return RELOCK_OK;
    for (size_t i = 0; i < questions->red->n; i++)
        opinions[i] = (struct relock_opinion){
            .is_known = questions[i].state == QUESTION_ANSWERED,
            .is_ours = is_ours(&questions[i]),
            .inspection = questions[i].inspection,
        };
    *inspection = relock_opinion_of_red(opinions, questions->red->n, questions->count);
    return RELOCK_OK;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void add_red(struct survey *survey, struct relock_group *red)
{
    for (size_t i = 0; i < red->n; i++)
        survey->questions[survey->n++] = (struct question){.lock = red->members[i], .red = red};
}

static void add_members(struct survey *survey, const struct relock_group *multi)
{
    for (size_t i = 0; i < multi->n; i++) {
        struct relock_lock *member = multi->members[i];

        if (relock_group_of(member->resource))
            add_red(survey, relock_group_of(member->resource));
        else
            survey->questions[survey->n++] = (struct question){.lock = member};
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

static struct survey *new_survey(struct relock_group *group)
{
    struct survey *new = calloc(1, sizeof(*new) + (count_servers(group) * sizeof(struct question)));

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

static void unref(struct survey *survey)
{
    if (atomic_fetch_sub(&survey->refs, 1) > 1)
        return;
    relock_group_unref(survey->group);
    free(survey);
}

/* ---- the owner's levels -------------------------------------------------------------------- */

static void find_hold(struct question *question, uint64_t owner)
{
    struct relock_client *client = question->lock->client;
    const struct relock_hold *hold;
    struct relock_guard guard;

    if (!relock_client_enter(client, false, &guard))
        return;
    hold = relock_resource_find_any(question->lock->resource, owner);
    if (hold) {
        question->number = hold->number;
        question->count = hold->count;
    }
    relock_client_exit(client, &guard);
}

/* The owner may have other permits of it. */
static void find_permits(struct question *question, uint64_t owner, size_t member)
{
    struct relock_group *multi = question->survey->group;
    const struct relock_hold *composite;
    const struct relock_bond *bond;
    struct relock_guard guard;

    if (!relock_client_enter(multi->coordinator, false, &guard))
        return;
    composite = multi->resource ? relock_resource_find(multi->resource, owner) : NULL;
    bond = composite ? composite->data : NULL;
    if (bond)
        question->number = bond->memberships[member].number;
    relock_client_exit(multi->coordinator, &guard);
}

static void find_votes(struct question *questions, uint64_t owner)
{
    struct relock_group *red = questions->red;
    struct relock_resource *resource;
    const struct relock_hold *composite;
    struct relock_guard guard;

    if (!relock_client_enter(red->coordinator, false, &guard))
        return;
    resource = relock_local_find(red->coordinator, red);
    composite = resource ? relock_resource_find(resource, owner) : NULL;
    for (size_t i = 0; i < red->n && composite && relock_tally_of(composite); i++) {
        const struct relock_tally_vote *vote = &relock_tally_of(composite)->guarded.votes[i];

        questions[i].count = composite->count;
        questions[i].number = vote->number;
        questions[i].is_certain = vote->yes && vote->valid_until_ms > relock_clock_now_ms();
    }
    relock_client_exit(red->coordinator, &guard);
}

static void find_own(struct survey *survey, uint64_t owner)
{
    struct question *question = survey->questions;

    for (size_t nth = 0; question < survey->questions + survey->n; nth++) {
        if (question->red)
            find_votes(question, owner);
        else if (question->lock->resource->kind->has_permits)
            find_permits(question, owner, nth);
        else
            find_hold(question, owner);
        question += n_questions(question);
    }
}

/* ---- the outcome of all -------------------------------------------------------------------- */

/* The first member with that outcome; NULL if there is none. */
static const struct question *find(const struct survey *survey, enum outcome outcome)
{
    for (size_t i = 0; i < survey->n; i += n_questions(&survey->questions[i]))
        if (outcome_of(&survey->questions[i]) == outcome)
            return &survey->questions[i];
    return NULL;
}

static enum outcome outcome_of_all(const struct survey *survey)
{
    if (find(survey, OUTCOME_FAILED))
        return OUTCOME_FAILED;
    return find(survey, OUTCOME_OPEN) ? OUTCOME_OPEN : OUTCOME_KNOWN;
}

static bool is_any_asked(const struct survey *survey)
{
    for (size_t i = 0; i < survey->n; i++)
        if (survey->questions[i].state == QUESTION_ASKED)
            return true;
    return false;
}

static void tell(struct question *question, int result, const struct redisReply *reply)
{
    struct survey *survey = question->survey;
    struct relock_mutex *mutex = &survey->group->coordinator->mutex;
    enum outcome outcome;

    relock_mutex_lock(mutex);
    take_answer(question, result, reply);
    outcome = outcome_of_all(survey);
    if (outcome == OUTCOME_FAILED || (outcome == OUTCOME_KNOWN && !is_any_asked(survey)))
        relock_gate_open_under(&survey->gate, mutex);
    relock_mutex_unlock(mutex);
}

/* ---- asking -------------------------------------------------------------------------------- */

static bool write_command(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    const struct question *question = (const struct question *)entry;

    relock_request_inspect_hold(request, question->lock->resource, question->number);
    return true;
}

static void answer(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                   const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    struct question *question = (struct question *)entry;
    struct survey *survey = question->survey;

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
static int post(struct question *question)
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
    relock_client_exit(client, &guard);
    return hangs ? RELOCK_E_CONN : RELOCK_OK;
}

/* Posts the questions that are open. */
static void ask(struct survey *survey)
{
    struct relock_mutex *mutex = &survey->group->coordinator->mutex;

    for (size_t i = 0; i < survey->n; i++) {
        struct question *question = &survey->questions[i];
        bool is_open;
        int r;

        relock_mutex_lock(mutex);
        is_open = question->state == QUESTION_OPEN;
        if (is_open)
            question->state = QUESTION_ASKED;
        relock_mutex_unlock(mutex);
        if (!is_open)
            continue;
        r = post(question);
        if (r < 0)
            tell(question, r, NULL);
    }
}

/* ---- the conclusion ------------------------------------------------------------------------ */

static int judge(const struct survey *survey, unsigned count, struct relock_inspection *inspection,
                 char why[RELOCK_WHY_MAX])
{
    const struct relock_group *group = survey->group;
    const struct question *questions = survey->questions;
    const struct question *failed = find(survey, OUTCOME_FAILED);

    if (failed)
        return judge_member(failed, inspection, why);
    if (!group->kind->is_collection)
        return judge_member(questions, inspection, why);
    *inspection = (struct relock_inspection){.holder = {.ttl_ms = FREE_MS}, .own_count = count};
    for (size_t i = 0; i < group->n; i++) {
        struct relock_inspection member = {0};
        int r = judge_member(questions, &member, why);

        if (r < 0)
            return r;
        if (group->members[i]->resource->kind->has_permits && member.own_count > 0)
            member.own_count = count; /* further levels have taken no permits */
        relock_opinion_add(inspection, &member, relock_lock_name(group->members[i]));
        questions += n_questions(questions);
    }
    return RELOCK_OK;
}

/* Asks until the outcome is known, or the time is over. */
static void ask_in_time(struct survey *survey, uint64_t deadline_ms)
{
    struct relock_mutex *mutex = &survey->group->coordinator->mutex;
    enum outcome outcome = OUTCOME_OPEN;

    while (outcome == OUTCOME_OPEN && relock_clock_now_ms() < deadline_ms) {
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
    struct survey *survey = new_survey(relock_group_of(lock->resource));
    int r;

    if (!survey)
        return RELOCK_E_NOMEM;
    find_own(survey, claim->owner);
    ask_in_time(survey, claim->deadline_ms);
    relock_mutex_lock(&coordinator->mutex);
    r = judge(survey, claim->count, inspection, why);
    relock_mutex_unlock(&coordinator->mutex);
    unref(survey);
    return r;
}
