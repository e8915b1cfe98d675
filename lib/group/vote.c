#include "group/private.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/wake/wake.h"

#include <stdlib.h>

/* ---- how long a server may take ------------------------------------------------------------ */

/* Small against the lease, so that slow servers leave most of it; with room for a network. */
#define PATIENCE_PART 50
#define PATIENCE_MIN_MS 50
#define PATIENCE_MAX_MS 1000

static uint64_t patience_ms(uint64_t lease_ms)
{
    uint64_t ms = relock_clock_later(lease_ms / PATIENCE_PART, PATIENCE_MIN_MS);

    return relock_clock_sooner(ms, PATIENCE_MAX_MS);
}

uint64_t relock_votes_limit_ms(uint64_t sent_ms, uint64_t lease_ms, uint64_t deadline_ms)
{
    return relock_clock_sooner(relock_clock_after(sent_ms, patience_ms(lease_ms)), deadline_ms);
}

/* ---- the hold of a vote -------------------------------------------------------------------- */

static void on_lost(struct relock_client *client, struct relock_hold *hold,
                    struct relock_observer *observer) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_vote *vote = (const struct relock_vote *)observer;
    int reason = hold->lost_reason;

    relock_mutex_unlock(&client->mutex);
    relock_tally_lose(vote, reason);
    relock_mutex_lock(&client->mutex);
}

static void on_renewed(struct relock_client *client, struct relock_hold *hold,
                       struct relock_observer *observer, uint64_t sent_ms)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_vote *vote = (const struct relock_vote *)observer;
    uint64_t valid_until_ms = hold->valid_until_ms;

    relock_mutex_unlock(&client->mutex);
    (void)relock_tally_grant(vote, sent_ms, valid_until_ms);
    relock_mutex_lock(&client->mutex);
}

static void on_gone(struct relock_observer *observer)
{
    struct relock_vote *vote = (struct relock_vote *)observer;

    relock_tally_unref(vote->tally);
    free(vote);
}

static const struct relock_observer_ops ops = {
    .lost = on_lost,
    .renewed = on_renewed,
    .gone = on_gone,
};

static struct relock_vote *vote_of(const struct relock_hold *hold)
{
    return (struct relock_vote *)relock_observer_find(hold, &ops);
}

/* A vote about to be asked for, on the member's client. NULL when out of memory. */
static struct relock_vote *new_vote(struct relock_client *client, struct relock_tally *tally,
                                    size_t member, unsigned round,
                                    const struct relock_vote_terms *terms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *resource = tally->group->members[member]->resource;
    struct relock_vote *vote = calloc(1, sizeof(*vote));
    struct relock_hold *cached = relock_resource_cached(resource);
    struct relock_hold *hold;

    if (!vote)
        return NULL;
    /* Else the vote would be refused because of a lock that nobody holds. */
    if (cached)
        relock_let_go(client, cached, relock_clock_now_ms());
    hold = relock_holds_new(client, resource, tally->owner, true);
    if (!hold) {
        free(vote);
        return NULL;
    }
    vote->observer.ops = &ops;
    vote->hold = hold;
    vote->tally = relock_tally_ref(tally);
    vote->member = member;
    vote->round = round;
    hold->lease_ms = terms->lease_ms;
    hold->renewal_ms = terms->lease_ms;
    hold->cap_ms = terms->cap_ms;
    relock_holds_keep(client, hold, terms->renewed ? RELOCK_HOLD_RENEWED : RELOCK_HOLD_FIXED);
    relock_observer_add(client, hold, &vote->observer);
    return vote;
}

/* ---- one server, under no mutex ------------------------------------------------------------ */

static struct relock_client *client_of(const struct relock_tally *tally, size_t member)
{
    return tally->group->members[member]->client;
}

/* The round counts an answer for a server to which no command was posted. */
static void count_unasked(struct relock_tally *tally, size_t member, unsigned round, int why,
                          enum relock_vote_answer answer)
{
    struct relock_tally_report report = {.member = member, .answer = answer};

    if (why == RELOCK_E_NOMEM) {
        report.refusal = why;
        report.why = "";
    }
    relock_tally_count(tally, round, &report);
}

/* Decides how a refused vote waits. A call that joins the line stands there from now on,
 * also if its vote cannot join yet. */
static enum relock_request_wait decide_wait(struct relock_client *client,
                                            struct relock_tally *tally, size_t member,
                                            const struct relock_vote_terms *terms)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_resource *resource = tally->group->members[member]->resource;

    if (member != RELOCK_SEQUENCER || !relock_kind_has_line(resource->kind))
        return RELOCK_REQUEST_WAITS;
    if (terms->wait != RELOCK_REQUEST_JOINS)
        return terms->wait;
    if (!*terms->stands)
        tally->group->listeners[member].base.n_standing++;
    *terms->stands = true;
    if (relock_inbox_is_open_for(client, resource))
        return RELOCK_REQUEST_JOINS;
    return relock_inbox_is_refused_for(client, resource) ? RELOCK_REQUEST_WAITS
                                                         : RELOCK_REQUEST_TRIES;
}

/* Returns RELOCK_OK, RELOCK_E_NOMEM; RELOCK_E_CONN when it is not to be asked now. */
static int ask_under(struct relock_client *client, struct relock_tally *tally, size_t member,
                     unsigned round, const struct relock_vote_terms *terms,
                     struct relock_vote **vote) RELOCK_REQUIRES(client->mutex)
{
    struct relock_vote *new;
    int r;

    if (!relock_drain_admits(client, tally->owner, terms->is_vouched) ||
        relock_outbox_hangs(&relock_local_of(client)->votes, terms->sent_ms,
                            patience_ms(terms->lease_ms)))
        return RELOCK_E_CONN;
    new = new_vote(client, tally, member, round, terms);
    if (!new)
        return RELOCK_E_NOMEM;
    new->wait = decide_wait(client, tally, member, terms);
    r = relock_vote_command_post(client, new, RELOCK_VOTE_COMMAND_LOCK, round, terms->sent_ms);
    if (r < 0) {
        relock_holds_end(client, new->hold);
        return r;
    }
    (void)relock_holds_ref(new->hold);
    relock_group_asked(tally->group, member, new->hold->number);
    *vote = new;
    return RELOCK_OK;
}

/* Returns the vote with a reference; NULL when there is none. */
static struct relock_vote *ask(struct relock_tally *tally, size_t member, unsigned round,
                               const struct relock_vote_terms *terms)
{
    struct relock_client *client = client_of(tally, member);
    struct relock_vote *vote = NULL;
    struct relock_guard guard;
    int r = RELOCK_E_CLOSED;

    if (relock_client_enter(client, false, &guard)) {
        r = ask_under(client, tally, member, round, terms, &vote);
        relock_client_exit(client, &guard);
    }
    if (r < 0)
        count_unasked(tally, member, round, r, RELOCK_ANSWER_NONE);
    return vote;
}

/* The answer that counts for a server that is not asked, because the vote is lost. */
static enum relock_vote_answer answer_of(const struct relock_hold *hold)
{
    return hold->state == RELOCK_HOLD_LOST && hold->lost_reason != RELOCK_LOST_EXPIRED
               ? RELOCK_ANSWER_NO
               : RELOCK_ANSWER_NONE;
}

/* A release drops the reference. If it cannot be posted, the vote is released in the background. */
static int send_under(struct relock_client *client, struct relock_vote *vote,
                      enum relock_vote_command_kind kind, unsigned round, uint64_t sent_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = vote->hold;
    int r = RELOCK_LOST;

    if (relock_hold_is_held(hold))
        r = relock_vote_command_post(client, vote, kind, round, sent_ms);
    if (kind == RELOCK_VOTE_COMMAND_UNLOCK) {
        if (r == RELOCK_OK)
            relock_holds_release(client, hold);
        else
            relock_let_go(client, hold, sent_ms);
        relock_holds_unref(client, hold);
    }
    return r;
}

static void send(struct relock_tally *tally, struct relock_vote *vote, size_t member,
                 enum relock_vote_command_kind kind, unsigned round, uint64_t sent_ms,
                 uint64_t lease_ms)
{
    struct relock_client *client = client_of(tally, member);
    enum relock_vote_answer answer = RELOCK_ANSWER_NONE;
    struct relock_guard guard;
    int r = RELOCK_E_CLOSED;

    if (relock_client_enter(client, false, &guard)) {
        answer = answer_of(vote->hold);
        if (lease_ms > vote->hold->lease_ms)
            vote->hold->lease_ms = lease_ms;
        r = send_under(client, vote, kind, round, sent_ms);
        relock_client_exit(client, &guard);
    }
    if (r < 0)
        count_unasked(tally, member, round, r, answer);
}

static void keep(struct relock_client *client, struct relock_vote *vote, bool renewed)
{
    struct relock_guard guard;

    if (!relock_client_enter(client, false, &guard))
        return;
    relock_holds_keep(client, vote->hold, renewed ? RELOCK_HOLD_RENEWED : RELOCK_HOLD_FIXED);
    relock_client_exit(client, &guard);
}

/* Drops the reference. */
static void let_go(struct relock_client *client, struct relock_vote *vote)
{
    struct relock_guard guard;
    struct relock_hold *hold;

    if (!relock_client_enter(client, false, &guard))
        return;
    hold = vote->hold;
    relock_let_go(client, hold, relock_clock_now_ms());
    relock_holds_unref(client, hold);
    relock_client_exit(client, &guard);
}

/* ---- all servers --------------------------------------------------------------------------- */

static void look_at(const struct relock_tally *tally, struct relock_vote *votes[RELOCK_TALLY_MAX])
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    for (size_t i = 0; i < RELOCK_TALLY_MAX; i++)
        votes[i] = tally->guarded.votes[i].vote;
}

static void take(struct relock_tally *tally, struct relock_vote *votes[RELOCK_TALLY_MAX])
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    look_at(tally, votes);
    tally->guarded.composite = NULL;
    for (size_t i = 0; i < RELOCK_TALLY_MAX; i++)
        tally->guarded.votes[i].vote = NULL;
}

/* The sequencer, which is the first, learns of a release last: the client that it tells finds the
 * other servers free. */
static void let_go_all(struct relock_tally *tally, struct relock_vote *votes[RELOCK_TALLY_MAX])
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    relock_mutex_unlock(&tally->group->coordinator->mutex);
    for (size_t i = tally->group->n; i-- > 0;)
        if (votes[i])
            let_go(client_of(tally, i), votes[i]);
    relock_mutex_lock(&tally->group->coordinator->mutex);
}

void relock_votes_let_go(struct relock_tally *tally)
{
    struct relock_vote *votes[RELOCK_TALLY_MAX];

    take(tally, votes);
    let_go_all(tally, votes);
}

void relock_votes_ask(struct relock_tally *tally, const bool wanted[RELOCK_TALLY_MAX],
                      const struct relock_vote_terms *terms)
{
    struct relock_vote *votes[RELOCK_TALLY_MAX] = {0}; /* those asked for, then those in excess */
    unsigned round;
    unsigned n = 0;

    for (size_t i = 0; i < tally->group->n; i++)
        n += wanted[i];
    round = relock_tally_begin(tally, n);
    for (size_t i = 0; i < tally->group->n; i++) {
        struct relock_tally_vote *vote = &tally->guarded.votes[i];

        if (wanted[i]) {
            vote->round = round;
            vote->is_asked = true;
        } else if (vote->yes) {
            tally->guarded.n_yes++;
        } else if (vote->no) {
            tally->guarded.n_no++;
        }
    }
    relock_mutex_unlock(&tally->group->coordinator->mutex);
    for (size_t i = 0; i < tally->group->n; i++)
        if (wanted[i])
            votes[i] = ask(tally, i, round, terms);
    relock_mutex_lock(&tally->group->coordinator->mutex);
    for (size_t i = 0; i < tally->group->n && tally->guarded.composite; i++) {
        struct relock_vote *before = tally->guarded.votes[i].vote;

        if (wanted[i]) {
            tally->guarded.votes[i].vote = votes[i];
            votes[i] = before;
        }
    }
    let_go_all(tally, votes);
}

void relock_votes_send(struct relock_tally *tally, enum relock_vote_command_kind kind,
                       uint64_t sent_ms, uint64_t lease_ms, uint64_t until_ms)
{
    struct relock_vote *votes[RELOCK_TALLY_MAX];
    unsigned round = relock_tally_begin(tally, (unsigned)tally->group->n);

    if (kind == RELOCK_VOTE_COMMAND_UNLOCK)
        take(tally, votes);
    else
        look_at(tally, votes);
    relock_mutex_unlock(&tally->group->coordinator->mutex);
    for (size_t i = tally->group->n; i-- > 0;) { /* see let_go_all */
        if (votes[i])
            send(tally, votes[i], i, kind, round, sent_ms, lease_ms);
        else
            count_unasked(tally, i, round, RELOCK_LOST, RELOCK_ANSWER_NONE);
    }
    relock_mutex_lock(&tally->group->coordinator->mutex);
    relock_tally_wait(tally, until_ms);
}

void relock_votes_keep(struct relock_tally *tally, bool renewed)
{
    struct relock_vote *votes[RELOCK_TALLY_MAX];

    look_at(tally, votes);
    relock_mutex_unlock(&tally->group->coordinator->mutex);
    for (size_t i = 0; i < tally->group->n; i++)
        if (votes[i])
            keep(client_of(tally, i), votes[i], renewed);
    relock_mutex_lock(&tally->group->coordinator->mutex);
}

/* ---- the end of a client ------------------------------------------------------------------- */

static struct relock_vote *find_vote(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    RELOCK_HOLDS_FOREACH(client, hold)
    {
        struct relock_vote *vote = vote_of(hold);

        if (vote && (hold->state == RELOCK_HOLD_ASKED || relock_hold_is_held(hold)))
            return vote;
    }
    return NULL;
}

void relock_votes_drop(struct relock_client *client)
{
    struct relock_vote *vote;

    while ((vote = find_vote(client))) {
        struct relock_hold *hold = relock_holds_ref(vote->hold);

        relock_let_go(client, hold, relock_clock_now_ms());
        relock_mutex_unlock(&client->mutex);
        relock_tally_lose(vote, RELOCK_LOST_GONE);
        relock_mutex_lock(&client->mutex);
        relock_holds_unref(client, hold);
    }
}
