#include "lock/vote.h"

#include "base/clock.h"
#include "base/status.h"
#include "lock/errand.h"
#include "lock/holds.h"

#include <stdlib.h>

/* Small against the lease, so that slow servers leave most of it; with room for a network. */
#define PATIENCE_PART 50
#define PATIENCE_MIN_MS 50
#define PATIENCE_MAX_MS 1000

uint64_t relock_vote_patience_ms(uint64_t lease_ms)
{
    uint64_t ms = lease_ms / PATIENCE_PART;

    if (ms < PATIENCE_MIN_MS)
        return PATIENCE_MIN_MS;
    return ms < PATIENCE_MAX_MS ? ms : PATIENCE_MAX_MS;
}

void relock_vote_free(struct relock_vote *vote)
{
    if (vote)
        relock_ballot_unref(vote->ballot);
    free(vote);
}

/* ---- asking -------------------------------------------------------------------------------- */

static struct relock_hold *make(struct relock_client *client, struct relock_ballot *ballot,
                                size_t member, unsigned round,
                                const struct relock_vote_terms *terms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_vote *vote = calloc(1, sizeof(*vote));
    struct relock_hold *hold;

    if (!vote)
        return NULL;
    hold = relock_holds_new(client, ballot->group->members[member]->site, ballot->owner);
    if (!hold) {
        free(vote);
        return NULL;
    }
    vote->ballot = relock_ballot_ref(ballot);
    vote->member = member;
    vote->round = round;
    hold->vote = vote;
    hold->lease_ms = terms->lease_ms;
    hold->renewal_ms = terms->lease_ms;
    hold->renewed = terms->renewed;
    hold->cap_ms = terms->cap_ms;
    return hold;
}

/* Returns RELOCK_OK, RELOCK_E_NOMEM; RELOCK_E_CONN when it is not to be asked now. */
static int ask(struct relock_client *client, struct relock_ballot *ballot, size_t member,
               unsigned round, const struct relock_vote_terms *terms, struct relock_hold **hold)
    RELOCK_REQUIRES(client->mutex)
{
    if (client->guarded.shut_down || relock_errand_hangs(client, terms))
        return RELOCK_E_CONN;
    *hold = make(client, ballot, member, round, terms);
    if (!*hold)
        return RELOCK_E_NOMEM;
    (void)relock_holds_ref(*hold);
    if (!relock_errand_post(client, *hold, RELOCK_ERRAND_LOCK, round, terms->sent_ms)) {
        relock_holds_end(client, *hold);
        relock_holds_unref(client, *hold);
        *hold = NULL;
        return RELOCK_E_NOMEM;
    }
    relock_group_asks(ballot->group->ears[member], (*hold)->number);
    return RELOCK_OK;
}

/* The round counts one that no errand will answer. */
static void count_unasked(struct relock_ballot *ballot, unsigned round, int why,
                          enum relock_answer answer)
{
    if (why == RELOCK_E_NOMEM)
        relock_ballot_refuse(ballot, round, why, "");
    relock_ballot_count(ballot, round, answer, 0);
}

RELOCK_UNCHECKED struct relock_hold *relock_vote_ask(struct relock_ballot *ballot, size_t member,
                                                     unsigned round,
                                                     const struct relock_vote_terms *terms)
{
    struct relock_client *client = ballot->group->members[member]->client;
    struct relock_hold *hold = NULL;
    struct relock_visit visit;
    int r = relock_client_enter(client, false, &visit);

    if (r == RELOCK_OK) {
        r = ask(client, ballot, member, round, terms, &hold);
        relock_client_leave(client, &visit);
    }
    if (r < 0)
        count_unasked(ballot, round, r, RELOCK_ANSWER_NONE);
    return hold;
}

RELOCK_UNCHECKED void relock_vote_keep(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_visit visit;

    if (relock_client_enter(client, false, &visit) < 0)
        return;
    hold->renewed = true;
    if (relock_hold_is_held(hold))
        relock_client_set_timer(client, &hold->timer,
                                relock_hold_due_ms(hold, relock_clock_now_ms()));
    relock_client_leave(client, &visit);
}

/* What a server says that is not asked, because it does not have the lock for us any more. */
static enum relock_answer answer_of(const struct relock_hold *hold)
{
    return hold->state == RELOCK_HOLD_LOST && hold->lost_reason != RELOCK_LOST_EXPIRED
               ? RELOCK_ANSWER_NO
               : RELOCK_ANSWER_NONE;
}

static int extend(struct relock_client *client, struct relock_hold *hold, unsigned round,
                  uint64_t sent_ms, uint64_t lease_ms) RELOCK_REQUIRES(client->mutex)
{
    if (lease_ms > hold->lease_ms)
        hold->lease_ms = lease_ms;
    if (!relock_hold_is_held(hold))
        return RELOCK_LOST;
    return relock_errand_post(client, hold, RELOCK_ERRAND_EXTEND, round, sent_ms) ? RELOCK_OK
                                                                                  : RELOCK_E_NOMEM;
}

RELOCK_UNCHECKED void relock_vote_extend(struct relock_ballot *ballot, size_t member,
                                         struct relock_hold *hold, unsigned round, uint64_t sent_ms,
                                         uint64_t lease_ms)
{
    struct relock_client *client = ballot->group->members[member]->client;
    enum relock_answer answer = RELOCK_ANSWER_NONE;
    struct relock_visit visit;
    int r = relock_client_enter(client, false, &visit);

    if (r == RELOCK_OK) {
        answer = answer_of(hold);
        r = extend(client, hold, round, sent_ms, lease_ms);
        relock_client_leave(client, &visit);
    }
    if (r < 0)
        count_unasked(ballot, round, r, answer);
}

/* ---- giving up ----------------------------------------------------------------------------- */

/* What cannot be asked for is released in the background. */
static int release(struct relock_client *client, struct relock_hold *hold, unsigned round)
    RELOCK_REQUIRES(client->mutex)
{
    int r = RELOCK_LOST;

    if (relock_hold_is_held(hold))
        r = relock_errand_post(client, hold, RELOCK_ERRAND_UNLOCK, round, relock_clock_now_ms())
                ? RELOCK_OK
                : RELOCK_E_NOMEM;
    if (r < 0) {
        relock_vote_abandon(client, hold);
        return r;
    }
    hold->state = RELOCK_HOLD_LEAVING;
    relock_client_unset_timer(client, &hold->timer);
    return RELOCK_OK;
}

RELOCK_UNCHECKED void relock_vote_release(struct relock_ballot *ballot, size_t member,
                                          struct relock_hold *hold, unsigned round)
{
    struct relock_client *client = ballot->group->members[member]->client;
    enum relock_answer answer = RELOCK_ANSWER_NONE;
    struct relock_visit visit;
    int r = relock_client_enter(client, false, &visit);

    if (r == RELOCK_OK) {
        answer = answer_of(hold);
        r = release(client, hold, round);
        relock_holds_unref(client, hold);
        relock_client_leave(client, &visit);
    }
    if (r < 0)
        count_unasked(ballot, round, r, answer);
}

void relock_vote_abandon(struct relock_client *client, struct relock_hold *hold)
{
    uint64_t now_ms = relock_clock_now_ms();

    switch (hold->state) {
    case RELOCK_HOLD_ASKED:
    case RELOCK_HOLD_HELD:
    case RELOCK_HOLD_SUSPECT:
        relock_holds_settle(client, hold, now_ms);
        return;
    case RELOCK_HOLD_LOST: /* what we only gave up hope of, the server may still have */
        if (hold->lost_reason == RELOCK_LOST_EXPIRED || hold->lost_reason == RELOCK_LOST_CAPPED)
            relock_holds_settle(client, hold, now_ms);
        else
            relock_holds_end(client, hold);
        return;
    case RELOCK_HOLD_LEAVING:
    case RELOCK_HOLD_SETTLING:
    case RELOCK_HOLD_ENDED:
        return;
    }
}

RELOCK_UNCHECKED void relock_vote_drop(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_visit visit;

    if (relock_client_enter(client, false, &visit) < 0)
        return;
    relock_vote_abandon(client, hold);
    relock_holds_unref(client, hold);
    relock_client_leave(client, &visit);
}

/* ---- the I/O thread ------------------------------------------------------------------------ */

void relock_vote_tell(struct relock_client *client, struct relock_hold *hold)
{
    const struct relock_vote *vote = hold->vote;
    int reason = hold->lost_reason;

    relock_mutex_unlock(&client->mutex);
    relock_ballot_lose(vote->ballot, vote->member, vote->round, reason);
    relock_mutex_lock(&client->mutex);
    if (hold->state == RELOCK_HOLD_LOST)
        relock_vote_abandon(client, hold);
}

void relock_vote_renewed(struct relock_hold *hold, uint64_t sent_ms, uint64_t valid_until_ms)
{
    (void)relock_ballot_vote(hold, sent_ms, valid_until_ms);
}
