#include "group/private.h"

#include "base/clock.h"
#include "lock/hold/holds.h"

#include <stdio.h>
#include <stdlib.h>

/* With the mutex of the coordinator held. */
static void on_composite_gone(struct relock_observer *observer)
{
    struct relock_tally *tally = (struct relock_tally *)observer;

    tally->guarded.composite = NULL;
    relock_tally_unref(tally);
}

static const struct relock_observer_ops ops = {.gone = on_composite_gone};

struct relock_tally *relock_tally_new(struct relock_client *client, struct relock_hold *composite)
{
    struct relock_tally *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    atomic_init(&new->refs, 1);
    new->group = relock_group_ref(relock_group_of(composite->resource));
    new->owner = composite->owner;
    new->guarded.composite = composite;
    relock_gate_init(&new->gate);
    new->observer.ops = &ops;
    relock_observer_add(client, composite, &new->observer);
    return new;
}

struct relock_tally *relock_tally_ref(struct relock_tally *tally)
{
    atomic_fetch_add(&tally->refs, 1);
    return tally;
}

void relock_tally_unref(struct relock_tally *tally)
{
    if (!tally || atomic_fetch_sub(&tally->refs, 1) > 1)
        return;
    relock_group_unref(tally->group);
    free(tally);
}

unsigned relock_tally_quorum(const struct relock_tally *tally)
{
    return relock_group_quorum(tally->group->n);
}

/* ---- rounds -------------------------------------------------------------------------------- */

unsigned relock_tally_begin(struct relock_tally *tally, unsigned n)
{
    tally->guarded.n_left = n;
    tally->guarded.n_yes = 0;
    tally->guarded.n_no = 0;
    tally->guarded.n_refused = 0;
    tally->guarded.lacks_memory = false;
    tally->guarded.is_barred = false;
    tally->guarded.n_receivers = 0;
    relock_gate_init(&tally->gate);
    return ++tally->guarded.round;
}

unsigned relock_tally_n_yes(const struct relock_tally *tally)
{
    unsigned n = 0;

    for (size_t i = 0; i < tally->group->n; i++)
        n += tally->guarded.votes[i].yes;
    return n;
}

unsigned relock_tally_n_no(const struct relock_tally *tally)
{
    unsigned n = 0;

    for (size_t i = 0; i < tally->group->n; i++)
        n += tally->guarded.votes[i].no;
    return n;
}

/* Whether the vote of the sequencer matters, though the others have refused. */
static bool awaits_sequencer(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    return tally->guarded.is_told && relock_tally_sequencer(tally)->is_asked;
}

/* Whether enough servers have answered for a refusal, or too few will. One that is down neither
 * grants nor refuses: a quorum of grants can be out of reach before a quorum has refused. */
static bool is_answered(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    unsigned quorum = relock_tally_quorum(tally);
    unsigned n_answers = tally->guarded.n_yes + tally->guarded.n_no;

    return n_answers >= quorum || n_answers + tally->guarded.n_left < quorum;
}

/* While the sequencer is bypassed, it matters whether its vote would have made a quorum. */
static bool is_decided(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    unsigned quorum = relock_tally_quorum(tally);
    unsigned n_most = tally->guarded.n_yes + tally->guarded.n_left;

    if (tally->guarded.is_barred || tally->guarded.n_yes >= quorum || tally->guarded.n_left == 0)
        return true;
    return n_most + tally->group->order.is_bypassed < quorum && is_answered(tally) &&
           !awaits_sequencer(tally);
}

void relock_tally_wait(struct relock_tally *tally, uint64_t until_ms)
{
    relock_mutex_unlock(&tally->group->coordinator->mutex);
    (void)relock_gate_wait(&tally->gate, until_ms);
    relock_mutex_lock(&tally->group->coordinator->mutex);
}

void relock_tally_end_turn(struct relock_tally *tally)
{
    tally->guarded.is_told = false;
    if (is_decided(tally))
        relock_gate_open_under(&tally->gate, &tally->group->coordinator->mutex);
}

static void refuse(struct relock_tally *tally, int result, const char *why)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    tally->guarded.n_refused++;
    tally->guarded.refusal = result;
    if (result == RELOCK_E_NOMEM)
        tally->guarded.lacks_memory = true;
    (void)snprintf(tally->guarded.why, sizeof(tally->guarded.why), "%s", why);
}

static void count(struct relock_tally *tally, const struct relock_tally_report *report)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    struct relock_tally_vote *vote = &tally->guarded.votes[report->member];

    tally->guarded.n_left--;
    vote->is_asked = false;
    if (report->answer == RELOCK_ANSWER_YES) {
        tally->guarded.n_yes++;
        if (report->n_receivers > tally->guarded.n_receivers)
            tally->guarded.n_receivers = report->n_receivers;
    }
    if (report->answer == RELOCK_ANSWER_NO) {
        tally->guarded.n_no++;
        if (report->member == RELOCK_SEQUENCER &&
            (report->is_reserved || (report->place > 1 && !tally->guarded.is_recheck)))
            tally->guarded.is_barred = true;
        vote->no = true;
        vote->free_at_ms = report->free_at_ms;
        vote->place = report->place;
        vote->is_listening = report->is_listening;
    }
    if (report->refusal < 0)
        refuse(tally, report->refusal, report->why);
    if (is_decided(tally))
        relock_gate_open_under(&tally->gate, &tally->group->coordinator->mutex);
}

void relock_tally_count(struct relock_tally *tally, unsigned round,
                        const struct relock_tally_report *report)
{
    relock_mutex_lock(&tally->group->coordinator->mutex);
    if (round == tally->guarded.round && tally->guarded.n_left > 0)
        count(tally, report);
    relock_mutex_unlock(&tally->group->coordinator->mutex);
}

void relock_tally_fail(const struct relock_tally *tally, unsigned n_answers,
                       struct relock_answer *answer)
{
    answer->verdict = RELOCK_VERDICT_FAILED;
    if (tally->guarded.n_refused >= relock_tally_quorum(tally)) {
        answer->result = tally->guarded.refusal;
        (void)snprintf(answer->why, RELOCK_WHY_MAX, "%s", tally->guarded.why);
        return;
    }
    answer->result = tally->guarded.lacks_memory ? RELOCK_E_NOMEM : RELOCK_E_CONN;
    (void)snprintf(answer->why, RELOCK_WHY_MAX, "%u of %zu servers answered in time", n_answers,
                   tally->group->n);
}

/* ---- the hold ------------------------------------------------------------------------------ */

uint64_t relock_tally_valid_until(const struct relock_tally *tally)
{
    uint64_t sorted[RELOCK_TALLY_MAX] = {0}; /* the latest first */

    for (size_t i = 0; i < tally->group->n; i++) {
        uint64_t at = tally->guarded.votes[i].yes ? tally->guarded.votes[i].valid_until_ms : 0;

        for (size_t j = 0; j <= i; j++) {
            uint64_t was = sorted[j];

            if (at > was) {
                sorted[j] = at;
                at = was;
            }
        }
    }
    return sorted[relock_tally_quorum(tally) - 1];
}

/* A vote has changed, and with it until when the hold is certain: earlier, too. */
static void update(struct relock_tally *tally, int reason)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    struct relock_hold *composite = tally->guarded.composite;
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t valid_until_ms = relock_tally_valid_until(tally);

    if (!composite || !relock_hold_is_held(composite))
        return;
    composite->valid_until_ms = valid_until_ms;
    if (valid_until_ms <= now_ms) {
        relock_holds_lose(tally->group->coordinator, composite, reason, now_ms);
        return;
    }
    relock_holds_arm(tally->group->coordinator, composite, now_ms);
}

bool relock_tally_is_heard(const struct relock_tally *tally, uint64_t since_ms)
{
    unsigned n = 0;

    since_ms = relock_clock_later(since_ms, tally->guarded.lost_ms);
    for (size_t i = 0; i < tally->group->n; i++)
        n += tally->guarded.votes[i].yes && tally->guarded.votes[i].sent_ms >= since_ms;
    return n >= relock_tally_quorum(tally);
}

bool relock_tally_grant(const struct relock_vote *vote, uint64_t sent_ms, uint64_t valid_until_ms)
{
    struct relock_tally *tally = vote->tally;
    struct relock_tally_vote *counted = &tally->guarded.votes[vote->member];
    bool is_wanted;

    relock_mutex_lock(&tally->group->coordinator->mutex);
    is_wanted = tally->guarded.composite && counted->round == vote->round;
    if (is_wanted) {
        counted->number = vote->hold->number;
        counted->yes = true;
        counted->no = false;
        counted->valid_until_ms = valid_until_ms;
        counted->sent_ms = sent_ms;
        update(tally, RELOCK_LOST_EXPIRED);
    }
    relock_mutex_unlock(&tally->group->coordinator->mutex);
    return is_wanted;
}

void relock_tally_lose(const struct relock_vote *vote, int reason)
{
    struct relock_tally *tally = vote->tally;
    struct relock_tally_vote *counted = &tally->guarded.votes[vote->member];

    relock_mutex_lock(&tally->group->coordinator->mutex);
    if (counted->round == vote->round) {
        if (counted->yes)
            tally->guarded.lost_ms = relock_clock_now_ms() + 1; /* not in the same one */
        counted->yes = false;
        update(tally, reason);
    }
    relock_mutex_unlock(&tally->group->coordinator->mutex);
}
