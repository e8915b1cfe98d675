#include "group/private.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/status.h"
#include "lock/state/cancel.h"
#include "lock/wake/wake.h"

/* The pause before the next attempt after too few answers; after split votes. */
#define UNREACHABLE_PAUSE_MS 20
#define SPLIT_PAUSE_MS 8

/* How long the other servers are not asked before the sequencer has answered. */
#define SEQUENCER_MS 100

/* How often servers are asked again that refuse a client with the vote of the sequencer; the first
 * pause, of which each further one is twice as long. */
#define N_INSISTS 4
#define INSIST_MS 1

/* The pause before the sequencer is asked again that refuses a client with a quorum: the release of
 * the owner before may be on its way. */
#define SEQUENCER_PAUSE_MS 10

/* ---- where a refused waiter waits ---------------------------------------------------------- */

static void set_listening(struct relock_acquire *acquire, bool listens)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    if (acquire->keeps_channels == listens)
        return;
    acquire->keeps_channels = listens;
    relock_mutex_unlock(&acquire->client->mutex);
    relock_group_listen(relock_group_of(acquire->resource), listens);
    relock_mutex_lock(&acquire->client->mutex);
}

static void leave_line(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_group *group = relock_group_of(acquire->resource);
    const struct relock_lock *member = group->members[RELOCK_SEQUENCER];
    struct relock_guard guard;

    if (!acquire->stands)
        return;
    acquire->stands = false;
    relock_mutex_unlock(&acquire->client->mutex);
    if (relock_client_enter(member->client, false, &guard)) {
        group->listeners[RELOCK_SEQUENCER].base.n_standing--;
        relock_line_give_up(member->client, member->resource);
        relock_subscription_idle(member->client, member->resource); /* if it stood outside */
        relock_client_exit(member->client, &guard);
    }
    relock_mutex_lock(&acquire->client->mutex);
}

/* The next waiter of this process starts at the end of the line. */
static void end_wait(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_group *group = relock_group_of(acquire->resource);

    relock_group_is_under(group, acquire->client);
    acquire->stop_listening = NULL;
    group->order.standing = RELOCK_STANDING_OUTSIDE;
    group->order.is_told = false;
    set_listening(acquire, false);
    leave_line(acquire);
}

/* ---- refused ------------------------------------------------------------------------------- */

/* Where a waiter stands after these answers of the servers. */
static enum relock_standing standing_after(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    const struct relock_tally_vote *sequencer = relock_tally_sequencer(tally);

    if (!sequencer->no || sequencer->place == 0)
        return RELOCK_STANDING_OUTSIDE;
    return tally->guarded.is_barred || !sequencer->is_listening ? RELOCK_STANDING_IN_LINE
                                                                : RELOCK_STANDING_FIRST;
}

/* Whether the vote of the sequencer would not be enough. */
static bool is_refused_by_others(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    unsigned n_no = relock_tally_n_no(tally) - relock_tally_sequencer(tally)->no;

    return n_no >= relock_tally_quorum(tally);
}

/* If only the sequencer is in the way, the client has to join its line: it has not followed the
 * messages of the sequencer. */
static void see_bypass(struct relock_acquire *acquire, const struct relock_tally *tally)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_group *group = tally->group;
    bool was_bypassed, is_outside;

    relock_group_is_under(tally->group, acquire->client);
    was_bypassed = group->order.is_bypassed;
    is_outside = standing_after(tally) == RELOCK_STANDING_OUTSIDE;
    if (group->order.pause_ms == 0)
        group->order.pause_ms = RELOCK_FIRST_PAUSE_MS;
    if (is_outside && tally->guarded.is_barred)
        return; /* the others were not asked; it asks again when the reservation is over */
    group->order.is_bypassed = is_refused_by_others(tally) &&
                               (relock_tally_sequencer(tally)->yes || (was_bypassed && is_outside));
    if (was_bypassed && !group->order.is_bypassed)
        relock_resource_signal(acquire->resource, false);
}

/* The attempt was refused. */
static void update_standing(struct relock_acquire *acquire, const struct relock_tally *tally)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_group *group = tally->group;
    bool is_new;

    relock_group_is_under(tally->group, acquire->client);
    group->order.is_contended = true;
    see_bypass(acquire, tally);
    group->order.standing = standing_after(tally);
    is_new = group->order.standing == RELOCK_STANDING_FIRST && !acquire->keeps_channels;
    set_listening(acquire, group->order.standing != RELOCK_STANDING_IN_LINE);
    if (is_new) {
        relock_resource_yield_until(acquire->resource, relock_clock_in(RELOCK_FIRST_PAUSE_MS));
        relock_resource_signal(acquire->resource, false);
    }
}

/* ---- the outcome --------------------------------------------------------------------------- */

/* Whether the sequencer alone decided: the waiter is told when it is its turn. */
static bool is_refused_by_line(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    return tally->guarded.is_barred || standing_after(tally) == RELOCK_STANDING_IN_LINE;
}

/* How many leases have to end for a quorum, if the servers that were not heard are free by then:
 * it was decided without them. */
static unsigned n_in_the_way(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    unsigned quorum = relock_tally_quorum(tally);
    unsigned n_no = relock_tally_n_no(tally);

    return n_no > quorum ? n_no - quorum + 1 : 1;
}

static unsigned n_free_by(const struct relock_tally *tally, uint64_t at_ms)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    unsigned n = 0;

    for (size_t i = 0; i < tally->group->n; i++)
        n += tally->guarded.votes[i].no && tally->guarded.votes[i].free_at_ms <= at_ms;
    return n;
}

/* When enough of the leases in the way have ended for a quorum. */
static uint64_t free_at(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    unsigned n_missing = n_in_the_way(tally);
    uint64_t at_ms = RELOCK_NEVER;

    for (size_t i = 0; i < tally->group->n; i++) {
        const struct relock_tally_vote *vote = &tally->guarded.votes[i];

        if (vote->no && vote->free_at_ms < at_ms && n_free_by(tally, vote->free_at_ms) >= n_missing)
            at_ms = vote->free_at_ms;
    }
    return at_ms;
}

/* Only the sequencer was asked, or its answer decided. Each client before this one in the line asks
 * first when the lease ends. */
static void refuse_in_line(const struct relock_acquire *acquire, const struct relock_tally *tally,
                           struct relock_answer *answer)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    const struct relock_tally_vote *sequencer = relock_tally_sequencer(tally);

    answer->busy.free_at_ms = relock_resource_after_lease(sequencer->free_at_ms, sequencer->place);
    answer->pause_ms = acquire->client->options.recheck_ms;
}

/* Another owner has it, or several have votes: when the head asks again. */
static void refuse(const struct relock_acquire *acquire, const struct relock_tally *tally,
                   struct relock_answer *answer) RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    bool is_split = relock_tally_n_no(tally) < relock_tally_quorum(tally);

    answer->verdict = RELOCK_VERDICT_BUSY;
    if (is_refused_by_line(tally) || tally->guarded.is_alone) {
        refuse_in_line(acquire, tally, answer);
        return;
    }
    answer->busy.free_at_ms = free_at(tally);
    if (is_split)
        answer->pause_ms = 1 + relock_ident_jitter(SPLIT_PAUSE_MS);
    else if (tally->group->is_announced)
        answer->pause_ms = acquire->client->options.recheck_ms;
}

static void judge(const struct relock_acquire *acquire, const struct relock_tally *tally,
                  struct relock_answer *answer) RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    unsigned quorum = relock_tally_quorum(tally);
    unsigned n_yes = relock_tally_n_yes(tally);
    unsigned n_answers = n_yes + relock_tally_n_no(tally);

    if (n_yes >= quorum && !tally->guarded.is_barred) {
        answer->verdict = RELOCK_VERDICT_DONE;
        answer->valid_until_ms = relock_tally_valid_until(tally);
    } else if (n_answers >= quorum || tally->guarded.is_alone) {
        refuse(acquire, tally, answer);
    } else {
        relock_tally_fail(tally, n_answers, answer);
    }
}

/* ---- one attempt --------------------------------------------------------------------------- */

/* The tally of the attempt before is over. Returns NULL when out of memory. */
static struct relock_tally *new_tally(struct relock_acquire *acquire, struct relock_hold *hold)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_tally *before = relock_tally_of(hold);

    if (before) {
        relock_observer_remove(acquire->client, hold, &before->observer);
        relock_tally_unref(before);
    }
    hold->data = relock_tally_new(acquire->client, hold);
    return hold->data;
}

/* A fixed lease is renewed too while a collecting call waits for other locks. Unchecked: clang
 * cannot know that the client of the call is the coordinator, whose mutex is held. */
RELOCK_UNCHECKED static struct relock_vote_terms terms_of(struct relock_acquire *acquire)
{
    bool is_bypassed = relock_group_of(acquire->resource)->order.is_bypassed;
    uint64_t max_ms = acquire->client->options.max_hold_ms;
    uint64_t now_ms = relock_clock_now_ms();

    return (struct relock_vote_terms){
        .sent_ms = now_ms,
        .lease_ms = acquire->lease_ms,
        .cap_ms = max_ms > 0 ? relock_clock_after(now_ms, max_ms) : RELOCK_NEVER,
        .renewed = acquire->waiter.renewed || acquire->stop,
        .wait = acquire->waiter.tries || is_bypassed ? RELOCK_REQUEST_TRIES : RELOCK_REQUEST_JOINS,
        .stands = &acquire->stands,
        .is_vouched =
            acquire->is_vouched || relock_drain_has_hold(acquire->client, acquire->waiter.owner),
    };
}

/* Asks the servers that are wanted, until that is decided, for no longer than `most_ms`. */
static void ask_round(struct relock_acquire *acquire, struct relock_tally *tally,
                      const bool wanted[RELOCK_TALLY_MAX], uint64_t most_ms)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    struct relock_vote_terms terms = terms_of(acquire);
    uint64_t limit_ms = relock_acquire_within_ms(acquire, terms.sent_ms, most_ms);
    uint64_t until_ms = relock_votes_limit_ms(terms.sent_ms, terms.lease_ms, limit_ms);

    relock_votes_ask(tally, wanted, &terms);
    if (tally->guarded.is_told) {
        relock_tally_wait(
            tally, relock_clock_sooner(relock_clock_after(terms.sent_ms, SEQUENCER_MS), until_ms));
        relock_tally_end_turn(tally);
    }
    relock_tally_wait(tally, until_ms);
}

static void ask_all_but(struct relock_acquire *acquire, struct relock_tally *tally, size_t but)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    bool wanted[RELOCK_TALLY_MAX] = {false};

    for (size_t i = 0; i < tally->group->n; i++)
        wanted[i] = i != but;
    ask_round(acquire, tally, wanted, acquire->client->options.command_timeout_ms);
}

static void ask_all(struct relock_acquire *acquire, struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    ask_all_but(acquire, tally, RELOCK_TALLY_MAX);
    tally->guarded.is_alone = tally->guarded.is_barred;
}

/* Whether to leave the others alone. The first in line asks them when it comes, because the vote of
 * the sequencer may be that of a dead owner, and then when it listens to them. An attempt that no
 * event has caused finds out whether they can be reached, and whether those before this client are
 * deaf; the farther behind it is, the less often. */
static bool is_over(const struct relock_acquire *acquire, const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    uint64_t place = relock_tally_sequencer(tally)->place;

    if (place == 1 && !tally->guarded.is_barred &&
        tally->group->order.standing == RELOCK_STANDING_OUTSIDE)
        return false;
    if (is_refused_by_line(tally))
        return !tally->guarded.is_recheck ||
               (place > 1 && ++tally->group->order.n_rechecks % place != 0);
    return standing_after(tally) == RELOCK_STANDING_FIRST && !acquire->keeps_channels;
}

/*
 * While clients stand in the line, an attempt without a turn mostly fails. So it asks the others
 * only if the sequencer has not refused, or has not answered for a while. A refusal then costs one
 * command, and takes no vote from the client whose turn it is.
 */
static void ask_in_order(struct relock_acquire *acquire, struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    const bool wanted[RELOCK_TALLY_MAX] = {[RELOCK_SEQUENCER] = true};
    bool is_barred;

    ask_round(acquire, tally, wanted, SEQUENCER_MS);
    is_barred = tally->guarded.is_barred;
    if (is_over(acquire, tally)) {
        tally->guarded.is_alone = true;
        return;
    }
    if (relock_tally_sequencer(tally)->yes && !acquire->contended)
        tally->group->order.is_contended = false;
    ask_all_but(acquire, tally, RELOCK_SEQUENCER);
    tally->guarded.is_barred = tally->guarded.is_barred || is_barred;
}

static void ask_servers(struct relock_acquire *acquire, struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    struct relock_group *group = tally->group;
    const struct relock_kind *kind = group->members[RELOCK_SEQUENCER]->resource->kind;
    bool in_order =
        group->order.is_contended && !group->order.is_told && relock_kind_has_line(kind);

    if (acquire->waiter.tries) {
        ask_all(acquire, tally);
        return;
    }
    tally->guarded.is_recheck =
        group->order.standing != RELOCK_STANDING_OUTSIDE && !group->order.is_heard;
    if (!tally->guarded.is_recheck)
        group->order.n_rechecks = 0;
    tally->guarded.is_told = group->order.is_told;
    group->order.is_told = false;
    group->order.is_heard = false;
    if (in_order)
        ask_in_order(acquire, tally);
    else
        ask_all(acquire, tally);
}

/* Sleeps so long. Returns RELOCK_AGAIN, or why the call ends. */
static int pause(struct relock_acquire *acquire, uint64_t pause_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t until_ms = relock_clock_in(pause_ms);
    bool is_woken = true; /* perhaps for a message, which waits */

    while (is_woken) {
        relock_mutex_unlock(&acquire->client->mutex);
        is_woken = relock_gate_wait(&acquire->waiter.gate, until_ms);
        relock_mutex_lock(&acquire->client->mutex);
        if (!relock_drain_admits(acquire->client, acquire->waiter.owner, acquire->is_vouched) ||
            relock_cancel_is_fired(acquire->stop))
            return RELOCK_E_CLOSED;
        if (relock_cancel_is_fired(acquire->how->cancel))
            return RELOCK_CANCELLED;
    }
    return RELOCK_AGAIN;
}

/* Asks those that have refused once more, after a pause. Returns false if there is no time. */
static bool ask_again(struct relock_acquire *acquire, struct relock_tally *tally, uint64_t pause_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    bool wanted[RELOCK_TALLY_MAX] = {false};
    bool any = false;

    relock_group_is_under(tally->group, acquire->client);
    if (relock_clock_in(pause_ms) >= acquire->deadline_ms ||
        pause(acquire, pause_ms) != RELOCK_AGAIN)
        return false;
    for (size_t i = 0; i < tally->group->n; i++) {
        const struct relock_tally_vote *vote = &tally->guarded.votes[i];

        wanted[i] = vote->no && !vote->is_asked;
        any = any || wanted[i];
    }
    if (any)
        ask_round(acquire, tally, wanted, SEQUENCER_MS);
    return true;
}

/*
 * A client with the vote of the sequencer has the right of way. The others refuse it because the
 * release of the owner before, or that of an attempt without a turn, is on its way.
 */
static void insist(struct relock_acquire *acquire, struct relock_tally *tally)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    unsigned quorum = relock_tally_quorum(tally);
    uint64_t pause_ms = INSIST_MS;

    relock_group_is_under(tally->group, acquire->client);
    for (unsigned i = 0; i < N_INSISTS; i++, pause_ms *= 2) {
        unsigned n_yes = relock_tally_n_yes(tally);

        if (!relock_tally_sequencer(tally)->yes || n_yes >= quorum ||
            n_yes + relock_tally_n_no(tally) < quorum || !ask_again(acquire, tally, pause_ms))
            return;
    }
}

/* The first in line has a quorum without the sequencer. The owner before may still be about to
 * release the lock there, and would then tell the first that it is its turn. */
static void wait_for_sequencer(struct relock_acquire *acquire, struct relock_tally *tally)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    relock_group_is_under(tally->group, acquire->client);
    if (!acquire->contended && !tally->group->order.is_contended)
        return; /* it is the vote that this client had before */
    if (relock_tally_n_yes(tally) >= relock_tally_quorum(tally) &&
        standing_after(tally) != RELOCK_STANDING_OUTSIDE && !tally->guarded.is_barred)
        (void)ask_again(acquire, tally, SEQUENCER_PAUSE_MS);
}

static void ask_once(struct relock_acquire *acquire, struct relock_hold *hold,
                     struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_tally *tally = new_tally(acquire, hold);

    answer->sent_ms = relock_clock_now_ms();
    if (!tally) {
        answer->verdict = RELOCK_VERDICT_FAILED;
        answer->result = RELOCK_E_NOMEM;
        return;
    }
    relock_group_is_under(tally->group, acquire->client);
    ask_servers(acquire, tally);
    if (!acquire->waiter.tries && !tally->group->order.is_bypassed) {
        insist(acquire, tally);
        wait_for_sequencer(acquire, tally);
    }
    judge(acquire, tally, answer);
    if (answer->verdict != RELOCK_VERDICT_DONE)
        relock_votes_let_go(tally);
    if (answer->verdict == RELOCK_VERDICT_DONE) {
        tally->group->order.is_bypassed = false;
        tally->group->order.pause_ms = 0;
    } else if (answer->verdict == RELOCK_VERDICT_BUSY && !acquire->waiter.tries) {
        update_standing(acquire, tally);
    }
}

/* Asks again while servers are unreachable, or refuse for now, and there is time. */
static void ask_in_time(struct relock_acquire *acquire, struct relock_hold *hold, uint64_t limit_ms,
                        struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    int r = RELOCK_AGAIN;

    while (r == RELOCK_AGAIN) {
        answer->result = RELOCK_OK;
        ask_once(acquire, hold, answer);
        if ((answer->result != RELOCK_E_CONN && answer->result != RELOCK_E_SERVER) ||
            relock_clock_now_ms() >= limit_ms)
            return;
        r = pause(acquire, (UNREACHABLE_PAUSE_MS / 2) + relock_ident_jitter(UNREACHABLE_PAUSE_MS));
    }
    answer->result = r;
}

void relock_redask(struct relock_acquire *acquire, struct relock_hold *hold,
                   struct relock_answer *answer)
{
    struct relock_group *group = relock_group_of(acquire->resource);
    bool may_wait = !acquire->waiter.tries;

    relock_group_is_under(group, acquire->client);
    if (may_wait) {
        acquire->stop_listening = end_wait;
        group->order.is_asking = true;
    }
    ask_in_time(acquire, hold, relock_acquire_limit_ms(acquire, answer->sent_ms), answer);
    if (may_wait)
        group->order.is_asking = false;
}
