/*
 * Red locks. Their home is the client of the lock and of whoever holds it, which clang's analysis
 * cannot know: it is off where both names of that mutex are needed.
 */
#include "lock/redlock.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/status.h"
#include "lock/cancel.h"
#include "lock/holds.h"
#include "lock/spinlock.h"
#include "lock/vote.h"

#include <stdio.h>

#define MIN_SERVERS 3

/* How soon servers are asked again when too few answered; when their votes were split. */
#define AWAY_PAUSE_MS 20
#define SPLIT_PAUSE_MS 8

static size_t n_of(const struct relock_ballot *ballot)
{
    return ballot->group->n;
}

static struct relock_client *client_of(const struct relock_ballot *ballot, size_t member)
{
    return ballot->group->members[member]->client;
}

/* ---- the ballot's holds -------------------------------------------------------------------- */

/* Takes the votes out of the ballot, which is over. */
static void take_votes(struct relock_ballot *ballot, struct relock_hold *votes[RELOCK_BALLOT_MAX])
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    ballot->guarded.whole = NULL;
    for (size_t i = 0; i < RELOCK_BALLOT_MAX; i++) {
        votes[i] = ballot->guarded.votes[i].hold;
        ballot->guarded.votes[i].hold = NULL;
    }
}

/* Under no mutex. */
static void drop(struct relock_ballot *ballot, struct relock_hold *votes[RELOCK_BALLOT_MAX])
{
    for (size_t i = 0; i < n_of(ballot); i++)
        if (votes[i])
            relock_vote_drop(client_of(ballot, i), votes[i]);
}

/* Gives each server's vote back, whatever it was. */
static void give_back(struct relock_ballot *ballot) RELOCK_REQUIRES(ballot->group->home->mutex)
{
    struct relock_hold *votes[RELOCK_BALLOT_MAX];

    take_votes(ballot, votes);
    relock_mutex_unlock(&ballot->group->home->mutex);
    drop(ballot, votes);
    relock_mutex_lock(&ballot->group->home->mutex);
}

/* ---- asking -------------------------------------------------------------------------------- */

/* Asks all members that are `wanted`, and hands what they may give to the ballot. */
static void ask_members(struct relock_ballot *ballot, const bool wanted[RELOCK_BALLOT_MAX],
                        const struct relock_vote_terms *terms)
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    struct relock_hold *asked[RELOCK_BALLOT_MAX] = {0};
    struct relock_hold *before[RELOCK_BALLOT_MAX] = {0};
    unsigned round;
    unsigned n = 0;

    for (size_t i = 0; i < n_of(ballot); i++)
        n += wanted[i];
    round = relock_ballot_begin(ballot, n);
    for (size_t i = 0; i < n_of(ballot); i++)
        if (wanted[i])
            ballot->guarded.votes[i].round = round;
    relock_mutex_unlock(&ballot->group->home->mutex);
    for (size_t i = 0; i < n_of(ballot); i++)
        if (wanted[i])
            asked[i] = relock_vote_ask(ballot, i, round, terms);
    relock_mutex_lock(&ballot->group->home->mutex);
    for (size_t i = 0; i < n_of(ballot); i++) {
        if (ballot->guarded.whole && wanted[i]) {
            before[i] = ballot->guarded.votes[i].hold;
            ballot->guarded.votes[i].hold = asked[i];
        } else {
            before[i] = asked[i]; /* over meanwhile */
        }
    }
    relock_mutex_unlock(&ballot->group->home->mutex);
    drop(ballot, before);
    relock_mutex_lock(&ballot->group->home->mutex);
}

/* How many leases have to end for a quorum, if the servers that were not heard are free by then:
 * it was decided without them. */
static unsigned n_in_the_way(const struct relock_ballot *ballot)
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    unsigned n_spare = (unsigned)n_of(ballot) - relock_ballot_quorum(ballot);

    return ballot->guarded.n_no > n_spare ? ballot->guarded.n_no - n_spare : 1;
}

/* When enough of the leases in the way have ended for a quorum. */
static uint64_t free_at(const struct relock_ballot *ballot, uint64_t now_ms)
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    unsigned n_missing = n_in_the_way(ballot);
    uint64_t at_ms = RELOCK_NEVER;

    for (unsigned i = 0; i < ballot->guarded.n_no; i++) {
        uint64_t rest_ms = ballot->guarded.rest_ms[i];
        unsigned n_sooner = 0;

        for (unsigned j = 0; j < ballot->guarded.n_no; j++)
            n_sooner += ballot->guarded.rest_ms[j] <= rest_ms;
        if (n_sooner >= n_missing && rest_ms < RELOCK_NEVER - now_ms && now_ms + rest_ms < at_ms)
            at_ms = now_ms + rest_ms + 1;
    }
    return at_ms;
}

/* Another owner has it, or several have votes: how soon the head asks again. */
RELOCK_UNCHECKED static void be_refused(struct relock_acquire *acquire,
                                        const struct relock_ballot *ballot)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    const struct relock_group *group = ballot->group;
    uint64_t now_ms = relock_clock_now_ms();
    bool is_split = ballot->guarded.n_no <= n_of(ballot) - relock_ballot_quorum(ballot);

    acquire->contended = true;
    acquire->site->lease_end_ms = free_at(ballot, now_ms);
    if (is_split)
        acquire->pause_ms = 1 + relock_ident_jitter(SPLIT_PAUSE_MS);
    else if (group->is_announced)
        acquire->pause_ms = acquire->client->options.recheck_ms;
    else
        acquire->pause_ms = relock_spinlock_pause_ms(acquire->pause_ms);
}

RELOCK_UNCHECKED static int judge(struct relock_acquire *acquire, struct relock_hold *hold,
                                  uint64_t sent_ms) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_ballot *ballot = hold->ballot;
    unsigned quorum = relock_ballot_quorum(ballot);

    if (ballot->guarded.n_yes >= quorum) {
        if (relock_site_find(acquire->site, acquire->waiter.owner))
            return RELOCK_AGAIN; /* another thread asked for the same owner at the same time */
        if (relock_ballot_valid_until(ballot) > relock_clock_now_ms()) {
            relock_holds_begin(acquire->client, hold, &acquire->waiter, sent_ms);
            acquire->hold = relock_holds_ref(hold);
            return RELOCK_OK;
        }
        relock_acquire_keep_why(acquire, "granted when the lease was all but over, and given back");
        return RELOCK_E_CONN;
    }
    if (ballot->guarded.n_yes + ballot->guarded.n_no >= quorum) {
        be_refused(acquire, ballot);
        return RELOCK_BUSY;
    }
    (void)snprintf(acquire->why, sizeof(acquire->why), "%u of %zu servers answered in time",
                   ballot->guarded.n_yes + ballot->guarded.n_no, n_of(ballot));
    return RELOCK_E_CONN;
}

static struct relock_hold *new_hold(struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_hold *hold =
        relock_holds_new(acquire->client, acquire->site, acquire->waiter.owner);

    if (!hold)
        return NULL;
    hold->lease_ms = acquire->lease_ms;
    hold->renewal_ms = acquire->site->group->lease_ms;
    hold->ballot = relock_ballot_new(acquire->site->group, hold);
    if (!hold->ballot) {
        relock_holds_end(acquire->client, hold);
        return NULL;
    }
    return hold;
}

RELOCK_UNCHECKED static int ask_once(struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_client *home = acquire->client;
    uint64_t max_ms = home->options.max_hold_ms;
    struct relock_vote_terms terms = {
        .sent_ms = relock_clock_now_ms(),
        .lease_ms = acquire->lease_ms,
        .renewed = acquire->waiter.renewed,
    };
    bool wanted[RELOCK_BALLOT_MAX];
    struct relock_hold *hold = new_hold(acquire);
    int r;

    if (!hold)
        return RELOCK_E_NOMEM;
    for (size_t i = 0; i < RELOCK_BALLOT_MAX; i++)
        wanted[i] = i < n_of(hold->ballot);
    terms.cap_ms = max_ms > 0 ? relock_clock_after(terms.sent_ms, max_ms) : RELOCK_NEVER;
    ask_members(hold->ballot, wanted, &terms);
    relock_mutex_unlock(&home->mutex);
    relock_ballot_wait(hold->ballot,
                       relock_clock_after(terms.sent_ms, relock_vote_patience_ms(terms.lease_ms)));
    relock_mutex_lock(&home->mutex);
    acquire->site->asked_ms = relock_clock_now_ms();
    r = judge(acquire, hold, terms.sent_ms);
    if (r != RELOCK_OK) {
        give_back(hold->ballot);
        relock_holds_end(home, hold);
    }
    return r;
}

/* Too few answered: a little pause before they are asked again. Returns RELOCK_E_CONN to do so. */
static int pause(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t until_ms = relock_clock_after(relock_clock_now_ms(),
                                           AWAY_PAUSE_MS / 2 + relock_ident_jitter(AWAY_PAUSE_MS));

    relock_mutex_unlock(&acquire->client->mutex);
    (void)relock_gate_wait(&acquire->waiter.gate, until_ms);
    relock_mutex_lock(&acquire->client->mutex);
    if (acquire->client->guarded.shut_down || relock_cancel_is_fired(acquire->stop))
        return RELOCK_E_CLOSED;
    return relock_cancel_is_fired(acquire->how->cancel) ? RELOCK_CANCELLED : RELOCK_E_CONN;
}

int relock_redlock_ask(struct relock_acquire *acquire)
{
    uint64_t began_ms = relock_clock_now_ms();
    uint64_t limit_ms = relock_clock_after(began_ms, acquire->client->options.command_timeout_ms);
    int r;

    acquire->waiter.line->news = false;
    acquire->waiter.has_asked = true;
    do {
        r = ask_once(acquire);
        if (r == RELOCK_E_CONN && relock_clock_now_ms() < limit_ms) {
            r = pause(acquire);
            if (r == RELOCK_E_CONN)
                continue;
        }
        break;
    } while (true);
    if (r == RELOCK_BUSY && acquire->how->wait_ms > 0 && !acquire->listens) {
        acquire->listens = true;
        relock_mutex_unlock(&acquire->client->mutex);
        relock_group_listen(acquire->site->group, true);
        relock_mutex_lock(&acquire->client->mutex);
    }
    if (r < 0 && r != RELOCK_BUSY) {
        /* This try has taken the news and learned nothing: the next head has the same reason. */
        relock_site_add_news(acquire->waiter.line, false);
        if (r == RELOCK_E_CONN)
            relock_site_end_unreached(acquire->waiter.line, began_ms);
    }
    return r;
}

void relock_redlock_stop_listening(struct relock_acquire *acquire)
{
    acquire->listens = false;
    relock_mutex_unlock(&acquire->client->mutex);
    relock_group_listen(acquire->site->group, false);
    relock_mutex_lock(&acquire->client->mutex);
}

/* ---- keeping ------------------------------------------------------------------------------- */

/* The votes, each with a reference of its own. */
static void ref_votes(struct relock_ballot *ballot, struct relock_hold *votes[RELOCK_BALLOT_MAX])
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    for (size_t i = 0; i < RELOCK_BALLOT_MAX; i++)
        votes[i] = ballot->guarded.votes[i].hold;
}

/* While the hold is busy nobody else takes its votes away. */
RELOCK_UNCHECKED static int extend_votes(struct relock_client *client, struct relock_hold *hold,
                                         uint64_t lease_ms) RELOCK_REQUIRES(client->mutex)
{
    struct relock_ballot *ballot = hold->ballot;
    struct relock_hold *votes[RELOCK_BALLOT_MAX];
    uint64_t sent_ms = relock_clock_now_ms();
    unsigned round = relock_ballot_begin(ballot, (unsigned)n_of(ballot));

    ref_votes(ballot, votes);
    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < n_of(ballot); i++) {
        if (votes[i])
            relock_vote_extend(ballot, i, votes[i], round, sent_ms, lease_ms);
        else
            relock_ballot_count(ballot, round, RELOCK_ANSWER_NONE, 0);
    }
    relock_ballot_wait(ballot, relock_clock_after(sent_ms, relock_vote_patience_ms(lease_ms)));
    relock_mutex_lock(&client->mutex);
    return ballot->guarded.n_yes >= relock_ballot_quorum(ballot) ? RELOCK_OK : RELOCK_E_CONN;
}

int relock_redlock_extend(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms)
{
    int r;

    relock_holds_work(hold, lease_ms);
    r = extend_votes(client, hold, lease_ms);
    relock_holds_rest(client, hold);
    if (!relock_hold_is_held(hold))
        r = RELOCK_LOST;
    relock_holds_unref(client, hold);
    return r;
}

RELOCK_UNCHECKED static void keep_votes(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_ballot *ballot = hold->ballot;
    struct relock_hold *votes[RELOCK_BALLOT_MAX];

    hold->renewed = true;
    ref_votes(ballot, votes);
    relock_holds_work(hold, 0);
    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < n_of(ballot); i++)
        if (votes[i])
            relock_vote_keep(client_of(ballot, i), votes[i]);
    relock_mutex_lock(&client->mutex);
    relock_holds_rest(client, hold);
    relock_holds_unref(client, hold);
}

int relock_redlock_nest(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms)
{
    uint64_t now_ms = relock_clock_now_ms();
    int r = RELOCK_OK;

    if (lease_ms > relock_clock_left(now_ms, hold->valid_until_ms))
        r = relock_redlock_extend(client, hold, lease_ms);
    else if (lease_ms == 0 && !hold->renewed)
        keep_votes(client, hold);
    if (r == RELOCK_OK && !relock_hold_is_held(hold))
        r = RELOCK_LOST; /* meanwhile */
    if (r == RELOCK_OK)
        hold->count++;
    return r;
}

/* Those that do not have it for us. Returns whether there are any. */
static bool find_missing(const struct relock_ballot *ballot, bool missing[RELOCK_BALLOT_MAX])
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    bool any = false;

    for (size_t i = 0; i < n_of(ballot); i++) {
        missing[i] = !ballot->guarded.votes[i].yes;
        any = any || missing[i];
    }
    return any;
}

static void renew_after(struct relock_client *client, struct relock_hold *hold, uint64_t pause_ms,
                        uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    hold->renew_at_ms = relock_clock_after(now_ms, pause_ms);
    relock_client_set_timer(client, &hold->timer, relock_hold_due_ms(hold, now_ms));
}

/*
 * Servers that forget at the same time are found out one by one. So none is asked again before a
 * quorum has said yes in this renewal: else the first would count in place of the last, and a lock
 * that another could have had meanwhile would go on as ours.
 */
RELOCK_UNCHECKED void relock_redlock_renew(struct relock_client *client, struct relock_hold *hold,
                                           uint64_t now_ms)
{
    struct relock_ballot *ballot = hold->ballot;
    struct relock_vote_terms terms = {
        .sent_ms = now_ms,
        .lease_ms = hold->renewal_ms,
        .cap_ms = hold->cap_ms,
        .renewed = true,
    };
    bool wanted[RELOCK_BALLOT_MAX] = {false};
    bool is_heard;

    if (!find_missing(ballot, wanted)) {
        renew_after(client, hold, relock_hold_renewal_ms(hold->renewal_ms), now_ms);
        return;
    }
    if (ballot->guarded.since_ms == 0)
        ballot->guarded.since_ms = hold->renew_at_ms - relock_hold_retry_ms(hold->renewal_ms);
    is_heard = relock_ballot_is_heard(ballot, ballot->guarded.since_ms);
    renew_after(client, hold,
                is_heard ? relock_hold_renewal_ms(hold->renewal_ms)
                         : relock_hold_retry_ms(hold->renewal_ms),
                now_ms);
    if (!is_heard)
        return;
    ballot->guarded.since_ms = 0;
    if (hold->busy)
        return; /* its owner counts answers; there is a next time */
    relock_holds_work(hold, 0);
    ask_members(ballot, wanted, &terms);
    relock_holds_rest(client, hold);
    relock_holds_unref(client, hold);
}

/* ---- giving up ----------------------------------------------------------------------------- */

static int judge_release(const struct relock_ballot *ballot)
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    unsigned quorum = relock_ballot_quorum(ballot);

    if (ballot->guarded.n_yes >= quorum)
        return RELOCK_OK;
    return ballot->guarded.n_no > n_of(ballot) - quorum ? RELOCK_LOST : RELOCK_E_CONN;
}

RELOCK_UNCHECKED int relock_redlock_release(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_site *site = hold->site;
    struct relock_ballot *ballot = hold->ballot;
    struct relock_hold *votes[RELOCK_BALLOT_MAX];
    uint64_t patience_ms = relock_vote_patience_ms(hold->renewal_ms);
    uint64_t now_ms = relock_clock_now_ms();
    unsigned round;
    int r;

    relock_holds_leave(client, hold);
    round = relock_ballot_begin(ballot, (unsigned)n_of(ballot));
    take_votes(ballot, votes);
    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < n_of(ballot); i++) {
        if (votes[i])
            relock_vote_release(ballot, i, votes[i], round);
        else
            relock_ballot_count(ballot, round, RELOCK_ANSWER_NONE, 0);
    }
    relock_ballot_wait(ballot, relock_clock_after(now_ms, patience_ms));
    relock_mutex_lock(&client->mutex);

    r = judge_release(ballot);
    now_ms = relock_clock_now_ms();
    if (ballot->guarded.n_heard > 1) /* somebody was told: perhaps another process */
        relock_site_yield(site, 0, now_ms);
    relock_site_vacate(site, false, now_ms);
    if (r == RELOCK_LOST)
        client->guarded.stats.lost++;
    relock_holds_end(client, hold);
    return r;
}

RELOCK_UNCHECKED void relock_redlock_let_go(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_ballot *ballot = hold->ballot;

    if (!ballot)
        return;
    while (hold->busy) /* its votes are in use */
        (void)relock_cond_wait_until(&client->changed, &client->mutex, RELOCK_NEVER);
    (void)relock_ballot_ref(ballot);
    give_back(ballot);
    relock_ballot_unref(ballot);
}

/* ---- the end of a client ------------------------------------------------------------------- */

static struct relock_hold *find_vote(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    if (hold->vote && (hold->state == RELOCK_HOLD_ASKED || relock_hold_is_held(hold)))
        return hold;
    return NULL;
}

void relock_redlock_drop_votes(struct relock_client *client)
{
    struct relock_hold *hold;

    while ((hold = find_vote(client))) {
        const struct relock_vote *vote = hold->vote;

        (void)relock_holds_ref(hold);
        relock_vote_abandon(client, hold);
        relock_mutex_unlock(&client->mutex);
        relock_ballot_lose(vote->ballot, vote->member, vote->round, RELOCK_LOST_GONE);
        relock_mutex_lock(&client->mutex);
        relock_holds_unref(client, hold);
    }
}

/* ---- new ----------------------------------------------------------------------------------- */

static const struct relock_kind red = {.is_polled = true};

static bool can_be_members(struct relock_lock *const *locks, size_t n)
{
    if (!locks || n < MIN_SERVERS || n > RELOCK_BALLOT_MAX || n % 2 == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!locks[i] || locks[i]->site->group)
            return false;
        for (size_t j = 0; j < i; j++)
            if (locks[j]->client == locks[i]->client)
                return false;
    }
    return true;
}

int relock_redlock_new(struct relock_lock *const *locks, size_t n, struct relock_lock **lock)
{
    if (!lock || !can_be_members(locks, n))
        return RELOCK_E_INVALID;
    return relock_group_make(&red, locks, n, lock);
}
