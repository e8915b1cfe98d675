/*
 * Asking the servers of a red lock, and what comes of their answers. The home of the lock is the
 * client of whoever asks, which clang's analysis cannot know: it is off where both names of that
 * mutex are needed.
 */
#include "base/clock.h"
#include "base/ident.h"
#include "base/status.h"
#include "lock/cancel.h"
#include "lock/holds.h"
#include "lock/redlock.h"
#include "lock/spinlock.h"
#include "lock/votes.h"

#include <stdio.h>

/* How soon servers are asked again when too few answered; when their votes were split. */
#define AWAY_PAUSE_MS 20
#define SPLIT_PAUSE_MS 8

static size_t n_of(const struct relock_ballot *ballot)
{
    return ballot->group->n;
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
    relock_site_learn(acquire->site);
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
    if (relock_ballot_failure(ballot) != RELOCK_E_CONN) {
        relock_acquire_keep_why(acquire, ballot->guarded.why);
        return relock_ballot_failure(ballot);
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
    uint64_t limit_ms = relock_acquire_limit_ms(acquire, terms.sent_ms);
    uint64_t patience_ms =
        relock_clock_after(terms.sent_ms, relock_vote_patience_ms(terms.lease_ms));
    bool wanted[RELOCK_BALLOT_MAX];
    struct relock_hold *hold = new_hold(acquire);
    int r;

    if (!hold)
        return RELOCK_E_NOMEM;
    for (size_t i = 0; i < RELOCK_BALLOT_MAX; i++)
        wanted[i] = i < n_of(hold->ballot);
    terms.cap_ms = max_ms > 0 ? relock_clock_after(terms.sent_ms, max_ms) : RELOCK_NEVER;
    relock_votes_ask(hold->ballot, wanted, &terms);
    relock_mutex_unlock(&home->mutex);
    relock_ballot_wait(hold->ballot, limit_ms < patience_ms ? limit_ms : patience_ms);
    relock_mutex_lock(&home->mutex);
    acquire->site->asked_ms = relock_clock_now_ms();
    r = judge(acquire, hold, terms.sent_ms);
    if (r != RELOCK_OK) {
        relock_votes_give_back(hold->ballot);
        relock_holds_end(home, hold);
    }
    return r;
}

/* Too few answered: a little pause before they are asked again. Returns RELOCK_AGAIN to do so. */
static int rest(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t until_ms = relock_clock_after(relock_clock_now_ms(),
                                           AWAY_PAUSE_MS / 2 + relock_ident_jitter(AWAY_PAUSE_MS));

    relock_mutex_unlock(&acquire->client->mutex);
    (void)relock_gate_wait(&acquire->waiter.gate, until_ms);
    relock_mutex_lock(&acquire->client->mutex);
    if (acquire->client->guarded.shut_down || relock_cancel_is_fired(acquire->stop))
        return RELOCK_E_CLOSED;
    return relock_cancel_is_fired(acquire->how->cancel) ? RELOCK_CANCELLED : RELOCK_AGAIN;
}

/* Servers that are away, or refuse, may think better of it. */
static int ask_in_time(struct relock_acquire *acquire, uint64_t limit_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    for (;;) {
        int r = ask_once(acquire);
        int r_rest;

        if ((r != RELOCK_E_CONN && r != RELOCK_E_SERVER) || relock_clock_now_ms() >= limit_ms)
            return r;
        r_rest = rest(acquire);
        if (r_rest != RELOCK_AGAIN)
            return r_rest;
    }
}

int relock_redlock_ask(struct relock_acquire *acquire)
{
    uint64_t began_ms = relock_clock_now_ms();
    uint64_t whole_ms = relock_clock_after(began_ms, acquire->client->options.command_timeout_ms);
    uint64_t limit_ms = relock_acquire_limit_ms(acquire, began_ms);
    int r;

    relock_site_doubt(acquire->waiter.line, began_ms);
    acquire->waiter.line->news = false;
    acquire->waiter.has_asked = true;
    r = ask_in_time(acquire, limit_ms);
    if (r == RELOCK_BUSY && acquire->how->wait_ms > 0 && !acquire->listens) {
        acquire->listens = true;
        relock_mutex_unlock(&acquire->client->mutex);
        relock_group_listen(acquire->site->group, true);
        relock_mutex_lock(&acquire->client->mutex);
    }
    if (r < 0 && r != RELOCK_BUSY) {
        /* This try has taken the news and learned nothing: the next head has the same reason. */
        relock_site_add_news(acquire->waiter.line, false);
        if (r == RELOCK_E_CONN && limit_ms == whole_ms)
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
