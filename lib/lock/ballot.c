#include "lock/ballot.h"

#include "base/clock.h"
#include "lock/holds.h"
#include "lock/vote.h"

#include <stdio.h>
#include <stdlib.h>

struct relock_ballot *relock_ballot_new(struct relock_group *group, struct relock_hold *whole)
{
    struct relock_ballot *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    atomic_init(&new->refs, 1);
    new->group = relock_group_ref(group);
    new->owner = whole->owner;
    new->guarded.whole = whole;
    relock_gate_init(&new->gate);
    return new;
}

struct relock_ballot *relock_ballot_ref(struct relock_ballot *ballot)
{
    atomic_fetch_add(&ballot->refs, 1);
    return ballot;
}

void relock_ballot_unref(struct relock_ballot *ballot)
{
    if (!ballot || atomic_fetch_sub(&ballot->refs, 1) > 1)
        return;
    relock_group_unref(ballot->group);
    free(ballot);
}

unsigned relock_ballot_quorum(const struct relock_ballot *ballot)
{
    return (unsigned)(ballot->group->n / 2) + 1;
}

/* ---- rounds -------------------------------------------------------------------------------- */

unsigned relock_ballot_begin(struct relock_ballot *ballot, unsigned n)
{
    ballot->guarded.n_left = n;
    ballot->guarded.n_yes = 0;
    ballot->guarded.n_no = 0;
    ballot->guarded.n_refused = 0;
    ballot->guarded.lacks_memory = false;
    ballot->guarded.n_heard = 0;
    relock_gate_init(&ballot->gate);
    return ++ballot->guarded.round;
}

static bool is_decided(const struct relock_ballot *ballot)
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    unsigned quorum = relock_ballot_quorum(ballot);

    return ballot->guarded.n_yes >= quorum ||
           ballot->guarded.n_yes + ballot->guarded.n_left < quorum;
}

void relock_ballot_wait(struct relock_ballot *ballot, uint64_t deadline_ms)
{
    (void)relock_gate_wait(&ballot->gate, deadline_ms);
}

void relock_ballot_count(struct relock_ballot *ballot, unsigned round, enum relock_answer answer,
                         int64_t detail)
{
    relock_mutex_lock(&ballot->group->home->mutex);
    if (round == ballot->guarded.round && ballot->guarded.n_left > 0) {
        ballot->guarded.n_left--;
        if (answer == RELOCK_ANSWER_YES) {
            ballot->guarded.n_yes++;
            if (detail > ballot->guarded.n_heard)
                ballot->guarded.n_heard = detail;
        }
        if (answer == RELOCK_ANSWER_NO)
            ballot->guarded.rest_ms[ballot->guarded.n_no++] =
                detail >= 0 ? (uint64_t)detail : RELOCK_NEVER;
        if (is_decided(ballot))
            relock_gate_open_under(&ballot->gate, &ballot->group->home->mutex);
    }
    relock_mutex_unlock(&ballot->group->home->mutex);
}

void relock_ballot_refuse(struct relock_ballot *ballot, unsigned round, int result, const char *why)
{
    relock_mutex_lock(&ballot->group->home->mutex);
    if (round == ballot->guarded.round) {
        ballot->guarded.n_refused++;
        ballot->guarded.refusal = result;
        if (result == RELOCK_E_NOMEM)
            ballot->guarded.lacks_memory = true;
        (void)snprintf(ballot->guarded.why, sizeof(ballot->guarded.why), "%s", why);
    }
    relock_mutex_unlock(&ballot->group->home->mutex);
}

int relock_ballot_failure(const struct relock_ballot *ballot)
{
    unsigned n_spare = (unsigned)ballot->group->n - relock_ballot_quorum(ballot);

    if (ballot->guarded.n_refused > n_spare)
        return ballot->guarded.refusal;
    return ballot->guarded.lacks_memory ? RELOCK_E_NOMEM : RELOCK_E_CONN;
}

/* ---- the hold ------------------------------------------------------------------------------ */

uint64_t relock_ballot_valid_until(const struct relock_ballot *ballot)
{
    uint64_t sorted[RELOCK_BALLOT_MAX] = {0}; /* the latest first */

    for (size_t i = 0; i < ballot->group->n; i++) {
        uint64_t at = ballot->guarded.votes[i].yes ? ballot->guarded.votes[i].valid_until_ms : 0;

        for (size_t j = 0; j <= i; j++) {
            uint64_t was = sorted[j];

            if (at > was) {
                sorted[j] = at;
                at = was;
            }
        }
    }
    return sorted[relock_ballot_quorum(ballot) - 1];
}

/* A vote has changed, and with it until when the hold is certain: earlier, too. */
static void update(struct relock_ballot *ballot, size_t member, int reason)
    RELOCK_REQUIRES(ballot->group->home->mutex)
{
    struct relock_hold *whole = ballot->guarded.whole;
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t valid_until_ms = relock_ballot_valid_until(ballot);

    if (!whole || !relock_hold_is_held(whole))
        return;
    whole->valid_until_ms = valid_until_ms;
    if (valid_until_ms <= now_ms) {
        whole->lost_member = (unsigned)member;
        relock_holds_lose(ballot->group->home, whole, reason, now_ms);
        return;
    }
    relock_client_set_timer(ballot->group->home, &whole->timer, relock_hold_due_ms(whole, now_ms));
}

bool relock_ballot_is_heard(const struct relock_ballot *ballot, uint64_t since_ms)
{
    unsigned n = 0;

    if (since_ms < ballot->guarded.lost_ms)
        since_ms = ballot->guarded.lost_ms;
    for (size_t i = 0; i < ballot->group->n; i++)
        n += ballot->guarded.votes[i].yes && ballot->guarded.votes[i].sent_ms >= since_ms;
    return n >= relock_ballot_quorum(ballot);
}

bool relock_ballot_vote(const struct relock_hold *vote, uint64_t sent_ms, uint64_t valid_until_ms)
{
    struct relock_ballot *ballot = vote->vote->ballot;
    size_t member = vote->vote->member;
    bool is_wanted;

    relock_mutex_lock(&ballot->group->home->mutex);
    is_wanted = ballot->guarded.whole && ballot->guarded.votes[member].round == vote->vote->round;
    if (is_wanted) {
        ballot->guarded.votes[member].number = vote->number;
        ballot->guarded.votes[member].yes = true;
        ballot->guarded.votes[member].valid_until_ms = valid_until_ms;
        ballot->guarded.votes[member].sent_ms = sent_ms;
        update(ballot, member, RELOCK_LOST_EXPIRED);
    }
    relock_mutex_unlock(&ballot->group->home->mutex);
    return is_wanted;
}

void relock_ballot_lose(struct relock_ballot *ballot, size_t member, unsigned round, int reason)
{
    relock_mutex_lock(&ballot->group->home->mutex);
    if (ballot->guarded.votes[member].round == round) {
        if (ballot->guarded.votes[member].yes)
            ballot->guarded.lost_ms = relock_clock_now_ms() + 1; /* not in the same one */
        ballot->guarded.votes[member].yes = false;
        update(ballot, member, reason);
    }
    relock_mutex_unlock(&ballot->group->home->mutex);
}
