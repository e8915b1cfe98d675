#include "group/voter.h"

#include "base/clock.h"
#include "base/status.h"
#include "group/listeners.h"
#include "group/local.h"
#include "group/vote_command.h"
#include "lock/holds.h"
#include "lock/let_go.h"

#include <stdlib.h>

/* Small against the lease, so that slow servers leave most of it; with room for a network. */
#define PATIENCE_PART 50
#define PATIENCE_MIN_MS 50
#define PATIENCE_MAX_MS 1000

uint64_t relock_voter_patience_ms(uint64_t lease_ms)
{
    uint64_t ms = lease_ms / PATIENCE_PART;

    if (ms < PATIENCE_MIN_MS)
        return PATIENCE_MIN_MS;
    return ms < PATIENCE_MAX_MS ? ms : PATIENCE_MAX_MS;
}

/* ---- asking -------------------------------------------------------------------------------- */

/* Returns RELOCK_OK, RELOCK_E_NOMEM; RELOCK_E_CONN when it is not to be asked now. */
static int ask(struct relock_client *client, struct relock_tally *tally, size_t member,
               unsigned round, const struct relock_vote_terms *terms, struct relock_vote **vote)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_vote *new;

    if (!relock_client_is_open(client) ||
        relock_outbox_hangs(&relock_local_of(client)->votes, terms->sent_ms,
                            relock_voter_patience_ms(terms->lease_ms)))
        return RELOCK_E_CONN;
    new = relock_vote_new(client, tally, member, round, terms);
    if (!new)
        return RELOCK_E_NOMEM;
    if (!relock_vote_command_post(client, new, RELOCK_VOTE_COMMAND_LOCK, round, terms->sent_ms)) {
        relock_holds_end(client, new->hold);
        return RELOCK_E_NOMEM;
    }
    (void)relock_holds_ref(new->hold);
    relock_group_asked(tally->group, member, new->hold->number);
    *vote = new;
    return RELOCK_OK;
}

/* The round counts one that no entry will answer. */
static void count_unasked(struct relock_tally *tally, unsigned round, int why,
                          enum relock_vote_answer answer)
{
    if (why == RELOCK_E_NOMEM)
        relock_tally_refuse(tally, round, why, "");
    relock_tally_count(tally, round, answer, 0, 0);
}

struct relock_vote *relock_voter_ask(struct relock_tally *tally, size_t member, unsigned round,
                                     const struct relock_vote_terms *terms)
{
    struct relock_client *client = tally->group->members[member]->client;
    struct relock_vote *vote = NULL;
    struct relock_guard guard;
    int r;

    if (relock_client_enter(client, false, &guard)) {
        r = ask(client, tally, member, round, terms, &vote);
        relock_client_leave(client, &guard);
    } else {
        r = guard.result;
    }
    if (r < 0)
        count_unasked(tally, round, r, RELOCK_ANSWER_NONE);
    return vote;
}

void relock_voter_keep(struct relock_client *client, struct relock_vote *vote, bool renewed)
{
    struct relock_guard guard;

    if (!relock_client_enter(client, false, &guard))
        return;
    relock_holds_keep(client, vote->hold, renewed ? RELOCK_HOLD_RENEWED : RELOCK_HOLD_FIXED);
    relock_client_leave(client, &guard);
}

/* The answer that counts for a server that is not asked, because the vote is lost. */
static enum relock_vote_answer answer_of(const struct relock_hold *hold)
{
    return hold->state == RELOCK_HOLD_LOST && hold->lost_reason != RELOCK_LOST_EXPIRED
               ? RELOCK_ANSWER_NO
               : RELOCK_ANSWER_NONE;
}

static int extend(struct relock_client *client, struct relock_vote *vote, unsigned round,
                  uint64_t sent_ms, uint64_t lease_ms) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = vote->hold;

    if (lease_ms > hold->lease_ms)
        hold->lease_ms = lease_ms;
    if (!relock_hold_is_held(hold))
        return RELOCK_LOST;
    return relock_vote_command_post(client, vote, RELOCK_VOTE_COMMAND_EXTEND, round, sent_ms)
               ? RELOCK_OK
               : RELOCK_E_NOMEM;
}

void relock_voter_extend(struct relock_tally *tally, size_t member, struct relock_vote *vote,
                         unsigned round, uint64_t sent_ms, uint64_t lease_ms)
{
    struct relock_client *client = tally->group->members[member]->client;
    enum relock_vote_answer answer = RELOCK_ANSWER_NONE;
    struct relock_guard guard;
    int r;

    if (relock_client_enter(client, false, &guard)) {
        answer = answer_of(vote->hold);
        r = extend(client, vote, round, sent_ms, lease_ms);
        relock_client_leave(client, &guard);
    } else {
        r = guard.result;
    }
    if (r < 0)
        count_unasked(tally, round, r, answer);
}

/* ---- releasing ----------------------------------------------------------------------------- */

/* If no command can be posted, the I/O thread releases the vote in the background. */
static int release(struct relock_client *client, struct relock_vote *vote, unsigned round)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = vote->hold;
    int r = RELOCK_LOST;

    if (relock_hold_is_held(hold))
        r = relock_vote_command_post(client, vote, RELOCK_VOTE_COMMAND_UNLOCK, round,
                                     relock_clock_now_ms())
                ? RELOCK_OK
                : RELOCK_E_NOMEM;
    if (r < 0) {
        relock_let_go(client, hold, relock_clock_now_ms());
        return r;
    }
    relock_holds_leave(client, hold);
    return RELOCK_OK;
}

void relock_voter_release(struct relock_tally *tally, size_t member, struct relock_vote *vote,
                          unsigned round)
{
    struct relock_client *client = tally->group->members[member]->client;
    enum relock_vote_answer answer = RELOCK_ANSWER_NONE;
    struct relock_guard guard;
    int r;

    if (relock_client_enter(client, false, &guard)) {
        answer = answer_of(vote->hold);
        r = release(client, vote, round);
        relock_holds_unref(client, vote->hold);
        relock_client_leave(client, &guard);
    } else {
        r = guard.result;
    }
    if (r < 0)
        count_unasked(tally, round, r, answer);
}

void relock_voter_drop(struct relock_client *client, struct relock_vote *vote)
{
    struct relock_guard guard;
    struct relock_hold *hold;

    if (!relock_client_enter(client, false, &guard))
        return;
    hold = vote->hold;
    relock_let_go(client, hold, relock_clock_now_ms());
    relock_holds_unref(client, hold);
    relock_client_leave(client, &guard);
}
