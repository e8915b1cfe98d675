#include "lock/errand.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "lock/holds.h"
#include "lock/request.h"
#include "redis/explain.h"
#include "redis/origin.h"
#include "redis/pipeline.h"
#include "redis/reply.h"

#include <stdlib.h>

/* Constant but for what is said: guarded by the mutex of the client. */
struct relock_errand {
    struct relock_hold *hold; /* a reference */
    enum relock_errand_kind kind;
    unsigned round;
    uint64_t sent_ms;
    uint64_t lease_ms;
    bool loaded;                       /* guarded: there was no script, it has been sent since */
    struct relock_errand *next, *prev; /* guarded */
};

bool relock_errand_post(struct relock_client *client, struct relock_hold *hold,
                        enum relock_errand_kind kind, unsigned round, uint64_t sent_ms)
{
    struct relock_errand *new = calloc(1, sizeof(*new));

    if (!new)
        return false;
    *new = (struct relock_errand){
        .hold = relock_holds_ref(hold),
        .kind = kind,
        .round = round,
        .sent_ms = sent_ms,
        .lease_ms = hold->lease_ms,
    };
    DL_APPEND(client->guarded.errands, new);
    relock_client_wake(client);
    return true;
}

bool relock_errand_hangs(const struct relock_client *client, const struct relock_vote_terms *terms)
{
    const struct relock_errand *oldest = client->guarded.unanswered;

    return oldest && terms->sent_ms > relock_clock_after(oldest->sent_ms,
                                                         relock_vote_patience_ms(terms->lease_ms));
}

/* ---- what comes of it ---------------------------------------------------------------------- */

/* What the ballot is told. */
struct verdict {
    enum relock_answer answer;
    int64_t detail;
    uint64_t valid_until_ms; /* 0: by this the server does not have it for us */
    int refusal;             /* the result that it stands for */
    const char *why;         /* with a refusal; or NULL */
    int lost_reason;         /* it had, and no longer does; else 0 */
    bool is_heard_on;        /* what was put off until this answer */
};

static void take_vote(struct relock_client *client, struct relock_hold *hold,
                      const struct relock_errand *errand) RELOCK_REQUIRES(client->mutex)
{
    hold->state = RELOCK_HOLD_HELD;
    hold->renew_at_ms =
        relock_clock_after(errand->sent_ms, relock_hold_renewal_ms(hold->renewal_ms));
    relock_holds_prolong(client, hold, errand->sent_ms, errand->lease_ms);
}

/* Nil, or a fencing token, of which each server has its own. */
static bool is_grant(const struct redisReply *reply)
{
    int64_t token;

    return relock_reply_is_nil(reply) || relock_reply_integer(relock_reply_at(reply, 0), &token);
}

static void judge_lock(struct relock_client *client, const struct relock_errand *errand, int result,
                       const struct redisReply *reply, struct verdict *verdict)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = errand->hold;
    struct relock_ear *ear = hold->vote->ballot->group->ears[hold->vote->member];
    bool is_refused = result == RELOCK_OK && relock_reply_integer(reply, &verdict->detail);
    bool is_granted = result == RELOCK_OK && is_grant(reply);

    if (is_refused)
        verdict->answer = RELOCK_ANSWER_NO;
    verdict->is_heard_on = relock_group_is_answered(ear, hold->number, is_granted);
    if (hold->state != RELOCK_HOLD_ASKED)
        return; /* nobody wants it: it is being released */
    if (is_granted) {
        take_vote(client, hold, errand);
        verdict->answer = RELOCK_ANSWER_YES;
        verdict->valid_until_ms = hold->valid_until_ms;
    } else if (result == RELOCK_E_CONN) {
        relock_holds_settle(client, hold, relock_clock_now_ms()); /* it may run yet */
    } else {
        relock_holds_end(client, hold);
    }
}

static void judge_extend(struct relock_client *client, const struct relock_errand *errand,
                         int64_t said, struct verdict *verdict) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = errand->hold;

    if (!relock_hold_is_held(hold))
        return;
    if (said > 0) {
        relock_holds_prolong(client, hold, errand->sent_ms, errand->lease_ms);
        verdict->answer = RELOCK_ANSWER_YES;
        verdict->valid_until_ms = hold->valid_until_ms;
    } else {
        verdict->answer = RELOCK_ANSWER_NO;
        verdict->lost_reason = said == 0 ? RELOCK_LOST_GONE : RELOCK_LOST_TAKEN;
        relock_holds_lose(client, hold, verdict->lost_reason, relock_clock_now_ms());
    }
}

static void judge_unlock(struct relock_client *client, const struct relock_errand *errand,
                         int result, int64_t said, struct verdict *verdict)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = errand->hold;

    if (result == RELOCK_OK)
        verdict->answer = said > 0 || said == -2 ? RELOCK_ANSWER_YES : RELOCK_ANSWER_NO;
    verdict->detail = said;
    if (hold->state != RELOCK_HOLD_LEAVING)
        return;
    if (result == RELOCK_OK)
        relock_holds_end(client, hold);
    else
        relock_holds_settle(client, hold, relock_clock_now_ms());
}

static struct verdict judge(struct relock_client *client, const struct relock_errand *errand,
                            int result, const struct redisReply *reply)
    RELOCK_REQUIRES(client->mutex)
{
    struct verdict verdict = {.answer = RELOCK_ANSWER_NONE};
    int64_t said = 0;

    if (errand->kind == RELOCK_ERRAND_LOCK) {
        judge_lock(client, errand, result, reply, &verdict);
        return verdict;
    }
    if (result == RELOCK_OK && !relock_reply_integer(reply, &said))
        result = RELOCK_E_SERVER;
    if (errand->kind == RELOCK_ERRAND_UNLOCK)
        judge_unlock(client, errand, result, said, &verdict);
    else if (result == RELOCK_OK)
        judge_extend(client, errand, said, &verdict);
    return verdict;
}

static const struct relock_script *script_of(const struct relock_errand *errand)
{
    const struct relock_kind *kind = errand->hold->site->kind;

    switch (errand->kind) {
    case RELOCK_ERRAND_LOCK:
        return kind->lock;
    case RELOCK_ERRAND_EXTEND:
        return kind->extend;
    case RELOCK_ERRAND_UNLOCK:
        break;
    }
    return kind->unlock;
}

/* Under no mutex. */
static void tell_refusal(const struct relock_errand *errand, const struct verdict *verdict)
{
    char why[RELOCK_WHY_MAX];

    relock_explain(why, script_of(errand), verdict->why);
    relock_ballot_refuse(errand->hold->vote->ballot, errand->round, verdict->refusal, why);
}

/* Under no mutex. A yes that nobody wants is given back. */
static void tell(struct relock_client *client, const struct relock_errand *errand,
                 const struct verdict *verdict)
{
    const struct relock_vote *vote = errand->hold->vote;

    if (verdict->valid_until_ms > 0 &&
        !relock_ballot_vote(errand->hold, errand->sent_ms, verdict->valid_until_ms)) {
        relock_mutex_lock(&client->mutex);
        relock_vote_abandon(client, errand->hold);
        relock_mutex_unlock(&client->mutex);
    }
    /* Before who waits for the round is woken by it, which asks what became of the hold. */
    if (verdict->lost_reason)
        relock_ballot_lose(vote->ballot, vote->member, vote->round, verdict->lost_reason);
    if (verdict->refusal < 0 && verdict->why)
        tell_refusal(errand, verdict);
    relock_ballot_count(vote->ballot, errand->round, verdict->answer, verdict->detail);
    if (verdict->is_heard_on)
        relock_group_hear_on(relock_site_listener(errand->hold->site));
}

/* Mutex held, and given up meanwhile. It stands in no list any more. */
static void finish(struct relock_client *client, struct relock_errand *errand, int result,
                   const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    struct verdict verdict = judge(client, errand, result, reply);

    verdict.refusal = result < 0 && result != RELOCK_E_CONN ? result : RELOCK_OK;
    verdict.why = reply ? relock_reply_error(reply) : NULL;
    if (errand->hold->state == RELOCK_HOLD_SETTLING) /* it may have waited for this */
        relock_client_set_timer(client, &errand->hold->timer, 0);
    relock_mutex_unlock(&client->mutex);
    tell(client, errand, &verdict);
    relock_mutex_lock(&client->mutex);
    relock_holds_unref(client, errand->hold);
    free(errand);
    if (!client->guarded.errands && !client->guarded.unanswered)
        relock_cond_broadcast(&client->changed); /* whoever frees the client waits for it */
}

static void on_answer(void *arg, int result, const struct redisReply *reply)
{
    struct relock_errand *errand = arg;
    struct relock_client *client = errand->hold->site->client;

    relock_mutex_lock(&client->mutex);
    DL_DELETE(client->guarded.unanswered, errand);
    errand->hold->n_errands--;
    if (result != RELOCK_E_CONN)
        errand->hold->debt = relock_origin_unref(errand->hold->debt);
    if (result > 0 && !errand->loaded) {
        errand->loaded = true; /* the script is there now */
        DL_PREPEND(client->guarded.errands, errand);
        relock_client_wake(client);
    } else {
        finish(client, errand, result > 0 ? RELOCK_E_SERVER : result, reply);
    }
    relock_mutex_unlock(&client->mutex);
}

/* ---- sending ------------------------------------------------------------------------------- */

static void make_request(struct relock_request *request, const struct relock_errand *errand)
{
    const struct relock_hold *hold = errand->hold;
    struct relock_site *site = hold->site;

    switch (errand->kind) {
    case RELOCK_ERRAND_LOCK:
        relock_request_lock(request, site, hold->number, 1, errand->lease_ms);
        if (site->kind->home)
            relock_request_beside(request, relock_site_home(site), 0);
        if (site->kind->is_queued)
            relock_request_queue(request, site, false);
        break;
    case RELOCK_ERRAND_EXTEND:
        relock_request_extend(request, site, hold->number, 1, errand->lease_ms);
        break;
    case RELOCK_ERRAND_UNLOCK:
        relock_request_unlock(request, site, hold->number, 0);
        break;
    }
}

static void send_errand(struct relock_client *client, struct relock_errand *errand)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = errand->hold;
    struct relock_origin *origin = relock_pipeline_origin(client->pipeline);
    struct relock_request request;
    int r;

    /* Given up before it went out: nothing to ask, and nothing to release. */
    if (errand->kind == RELOCK_ERRAND_LOCK && hold->state != RELOCK_HOLD_ASKED) {
        finish(client, errand, RELOCK_E_SERVER, NULL);
        return;
    }
    make_request(&request, errand);
    r = relock_pipeline_call(client->pipeline, &request.call, on_answer, errand);
    if (r == RELOCK_OK) {
        hold->n_errands++;
        if (errand->kind == RELOCK_ERRAND_LOCK && origin && !hold->debt)
            hold->debt = relock_origin_ref(origin);
        DL_APPEND(client->guarded.unanswered, errand);
        return;
    }
    /* Never sent. What was to be released is so later. */
    finish(client, errand, errand->kind == RELOCK_ERRAND_LOCK ? RELOCK_E_SERVER : r, NULL);
}

void relock_errand_send_all(struct relock_client *client)
{
    struct relock_errand *errand;

    while ((errand = client->guarded.errands)) {
        DL_DELETE(client->guarded.errands, errand);
        send_errand(client, errand);
    }
}

static void drop(struct relock_client *client, struct relock_errand *errand)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_vote *vote = errand->hold->vote;

    relock_mutex_unlock(&client->mutex);
    relock_ballot_count(vote->ballot, errand->round, RELOCK_ANSWER_NONE, 0);
    relock_mutex_lock(&client->mutex);
    relock_holds_unref(client, errand->hold);
    free(errand);
}

void relock_errand_drop_all(struct relock_client *client)
{
    struct relock_errand *errand;

    while ((errand = client->guarded.errands)) {
        DL_DELETE(client->guarded.errands, errand);
        drop(client, errand);
    }
    while ((errand = client->guarded.unanswered)) {
        DL_DELETE(client->guarded.unanswered, errand);
        drop(client, errand);
    }
}
