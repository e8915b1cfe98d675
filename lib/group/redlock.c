/*
 * Red locks, one lock on several independent servers, held while more than half of them say so.
 *
 * All servers are asked at the same time and the first quorum decides, so a server that is down,
 * hangs or is late costs nothing. The hold on the coordinator, the client of the first member,
 * counts the levels; its tally says how long it is certain.
 */
#include "base/clock.h"
#include "group/private.h"
#include "lock/hold/holds.h"

/* A release may take longer than an acquire: no lease runs out meanwhile. */
#define RELEASE_MS 1000

/* ---- keeping ------------------------------------------------------------------------------- */

static void take_round(const struct relock_tally *tally, struct relock_answer *answer)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    if (tally->guarded.n_yes >= relock_tally_quorum(tally))
        answer->verdict = RELOCK_VERDICT_DONE;
    else
        relock_tally_fail(tally, tally->guarded.n_yes + tally->guarded.n_no, answer);
}

/* No other thread takes the votes of a busy hold. */
static void extend(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                   uint64_t deadline_ms, struct relock_answer *answer)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_tally *tally = relock_tally_of(hold);

    relock_group_is_under(tally->group, client);
    relock_votes_send(tally, RELOCK_VOTE_COMMAND_EXTEND, answer->sent_ms, lease_ms, deadline_ms);
    take_round(tally, answer);
    answer->valid_until_ms = relock_tally_valid_until(tally);
}

/* The servers count one level, so they are asked only for a longer lease. */
static void nest(struct relock_acquire *acquire, struct relock_hold *hold,
                 struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t lease_ms = acquire->how->lease_ms;

    if (lease_ms > relock_clock_left(answer->sent_ms, hold->valid_until_ms))
        extend(acquire->client, hold, lease_ms, relock_acquire_limit_ms(acquire, answer->sent_ms),
               answer);
}

/* The hold is busy. */
static void keep(struct relock_client *client, struct relock_hold *hold, bool renewed)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_tally *tally = relock_tally_of(hold);

    relock_group_is_under(tally->group, client);
    relock_votes_keep(tally, renewed);
}

/* The servers without our vote. Returns whether there are any. */
static bool find_missing(const struct relock_tally *tally, bool missing[RELOCK_TALLY_MAX])
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    bool any = false;

    for (size_t i = 0; i < tally->group->n; i++) {
        missing[i] = !tally->guarded.votes[i].yes;
        any = any || missing[i];
    }
    return any;
}

static void renew_after(struct relock_client *client, struct relock_hold *hold, uint64_t pause_ms,
                        uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    hold->renew_at_ms = relock_clock_after(now_ms, pause_ms);
    relock_holds_arm(client, hold, now_ms);
}

static bool lacks_sequencer(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    return relock_tally_sequencer(tally)->no && !relock_tally_sequencer(tally)->yes;
}

/* ---- renewals ------------------------------------------------------------------------------ */

/*
 * Servers that lost their data at the same time are noticed one by one. So none is asked again
 * before a quorum has granted this renewal, by commands sent after the last known loss. Otherwise a
 * regained vote could hide a loss not yet noticed, and another owner could have held the lock in
 * between.
 */
static void renew(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_tally *tally = relock_tally_of(hold);
    struct relock_vote_terms terms = {
        .sent_ms = now_ms,
        .lease_ms = hold->renewal_ms,
        .cap_ms = hold->cap_ms,
        .renewed = true,
        .wait = RELOCK_REQUEST_WAITS,
    };
    bool wanted[RELOCK_TALLY_MAX] = {false};
    bool is_heard;

    relock_group_is_under(tally->group, client);
    if (!find_missing(tally, wanted)) {
        renew_after(client, hold, relock_hold_renewal_ms(hold->renewal_ms), now_ms);
        return;
    }
    if (tally->guarded.since_ms == 0)
        tally->guarded.since_ms = hold->renew_at_ms - relock_hold_retry_ms(hold->renewal_ms);
    is_heard = relock_tally_is_heard(tally, tally->guarded.since_ms);
    renew_after(client, hold,
                is_heard ? relock_hold_renewal_ms(hold->renewal_ms)
                         : relock_hold_retry_ms(hold->renewal_ms),
                now_ms);
    if (!is_heard)
        return;
    tally->guarded.since_ms = 0;
    if (hold->busy)
        return; /* a command of the owner uses the tally; retried at the next renewal */
    relock_owner_command_begin(hold, 0);
    relock_votes_ask(tally, wanted, &terms);
    relock_owner_command_end(client, hold);
    relock_holds_unref(client, hold);
}

/* ---- releasing ----------------------------------------------------------------------------- */

static void take_release(const struct relock_tally *tally, struct relock_answer *answer)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    bool is_gone = tally->guarded.n_no >= relock_tally_quorum(tally);

    take_round(tally, answer);
    if (answer->verdict != RELOCK_VERDICT_DONE && is_gone)
        answer->verdict = RELOCK_VERDICT_GONE;
    answer->n_receivers = tally->guarded.n_receivers; /* perhaps another process */
}

/* The servers count one level, so only the last release reaches them. */
static void release(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms,
                    struct relock_answer *answer) RELOCK_REQUIRES(client->mutex)
{
    struct relock_tally *tally = relock_tally_of(hold);
    uint64_t now_ms = relock_clock_now_ms();

    if (hold->count > 0)
        return;
    relock_group_is_under(tally->group, client);
    if (lacks_sequencer(tally))
        tally->group->order.is_contended = true; /* another client had its vote meanwhile */
    relock_votes_send(tally, RELOCK_VOTE_COMMAND_UNLOCK, now_ms, 0,
                      relock_clock_sooner(relock_clock_after(now_ms, RELEASE_MS), deadline_ms));
    take_release(tally, answer);
}

/* A command in flight uses the votes, and releases them at its end. */
static void release_votes(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_tally *tally = relock_tally_of(hold);

    if (!tally || hold->busy) /* NULL: there was no memory for it */
        return;
    relock_group_is_under(tally->group, client);
    relock_votes_let_go(tally);
}

static void let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    (void)now_ms;
    hold->count = 0;
    release_votes(client, hold);
    relock_holds_end(client, hold);
}

/* ---- kind ---------------------------------------------------------------------------------- */

static const struct relock_operations operations = {
    .ask = relock_redask,
    .nest = nest,
    .release = release,
    .extend = extend,
    .inspect = relock_survey_run,
    .renew = renew,
    .let_go = let_go,
    .lost = release_votes,
    .keep = keep,
};

const struct relock_kind relock_kind_red = {
    .is_composite = true, .is_polled = true, .operations = &operations};
