/*
 * Keeping and giving up a red lock. Its home is the client of the lock and of whoever holds it,
 * which clang's analysis cannot know: it is off where both names of that mutex are needed.
 */
#include "lock/redlock.h"

#include "base/clock.h"
#include "lock/holds.h"
#include "lock/votes.h"

#define MIN_SERVERS 3

/* A release may take its time: no lease is running out meanwhile. */
#define RELEASE_MS 1000

static size_t n_of(const struct relock_ballot *ballot)
{
    return ballot->group->n;
}

static struct relock_client *client_of(const struct relock_ballot *ballot, size_t member)
{
    return ballot->group->members[member]->client;
}

/* ---- keeping ------------------------------------------------------------------------------- */

/* The votes, as long as the hold is busy. */
static void look_at_votes(struct relock_ballot *ballot,
                          struct relock_hold *votes[RELOCK_BALLOT_MAX])
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    for (size_t i = 0; i < RELOCK_BALLOT_MAX; i++)
        votes[i] = ballot->guarded.votes[i].hold;
}

static uint64_t earlier(uint64_t a_ms, uint64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

/* While the hold is busy nobody else takes its votes away. */
RELOCK_UNCHECKED static int extend_votes(struct relock_client *client, struct relock_hold *hold,
                                         uint64_t lease_ms, uint64_t deadline_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_ballot *ballot = hold->ballot;
    struct relock_hold *votes[RELOCK_BALLOT_MAX];
    uint64_t sent_ms = relock_clock_now_ms();
    unsigned round = relock_ballot_begin(ballot, (unsigned)n_of(ballot));

    look_at_votes(ballot, votes);
    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < n_of(ballot); i++) {
        if (votes[i])
            relock_vote_extend(ballot, i, votes[i], round, sent_ms, lease_ms);
        else
            relock_ballot_count(ballot, round, RELOCK_ANSWER_NONE, 0);
    }
    relock_ballot_wait(
        ballot,
        earlier(deadline_ms, relock_clock_after(sent_ms, relock_vote_patience_ms(lease_ms))));
    relock_mutex_lock(&client->mutex);
    return ballot->guarded.n_yes >= relock_ballot_quorum(ballot) ? RELOCK_OK
                                                                 : relock_ballot_failure(ballot);
}

int relock_redlock_extend(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                          uint64_t deadline_ms)
{
    int r;

    relock_holds_work(hold, lease_ms);
    r = extend_votes(client, hold, lease_ms, deadline_ms);
    relock_holds_rest(client, hold);
    if (!relock_hold_is_held(hold)) {
        relock_redlock_let_go(client, hold);
        r = RELOCK_LOST;
    }
    relock_holds_unref(client, hold);
    return r;
}

RELOCK_UNCHECKED static void keep_votes(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_ballot *ballot = hold->ballot;
    struct relock_hold *votes[RELOCK_BALLOT_MAX];

    hold->renewed = true;
    look_at_votes(ballot, votes);
    relock_holds_work(hold, 0);
    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < n_of(ballot); i++)
        if (votes[i])
            relock_vote_keep(client_of(ballot, i), votes[i]);
    relock_mutex_lock(&client->mutex);
    relock_holds_rest(client, hold);
    relock_holds_unref(client, hold);
}

int relock_redlock_nest(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                        uint64_t deadline_ms)
{
    uint64_t now_ms = relock_clock_now_ms();
    int r = RELOCK_OK;

    if (lease_ms > relock_clock_left(now_ms, hold->valid_until_ms))
        r = relock_redlock_extend(client, hold, lease_ms, deadline_ms);
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
 * quorum has said yes in this renewal, and to what was sent when the last loss was known: else the
 * first would count in place of the last, and a lock that another could have had meanwhile would go
 * on as ours.
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
    relock_votes_ask(ballot, wanted, &terms);
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
    return ballot->guarded.n_no > n_of(ballot) - quorum ? RELOCK_LOST
                                                        : relock_ballot_failure(ballot);
}

RELOCK_UNCHECKED int relock_redlock_release(struct relock_client *client, struct relock_hold *hold,
                                            uint64_t deadline_ms)
{
    struct relock_site *site = hold->site;
    struct relock_ballot *ballot = hold->ballot;
    struct relock_hold *votes[RELOCK_BALLOT_MAX];
    uint64_t now_ms = relock_clock_now_ms();
    unsigned round;
    int r;

    relock_holds_leave(client, hold);
    round = relock_ballot_begin(ballot, (unsigned)n_of(ballot));
    relock_votes_take(ballot, votes);
    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < n_of(ballot); i++) {
        if (votes[i])
            relock_vote_release(ballot, i, votes[i], round);
        else
            relock_ballot_count(ballot, round, RELOCK_ANSWER_NONE, 0);
    }
    relock_ballot_wait(ballot, earlier(deadline_ms, relock_clock_after(now_ms, RELEASE_MS)));
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
    relock_votes_give_back(ballot);
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
