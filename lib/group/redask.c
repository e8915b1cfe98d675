#include "group/redask.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/status.h"
#include "group/listeners.h"
#include "group/vote.h"
#include "lock/cancel.h"

/* The pause before the next attempt after too few answers; after split votes. */
#define UNREACHABLE_PAUSE_MS 20
#define SPLIT_PAUSE_MS 8

/* How many leases have to end for a quorum, if the servers that were not heard are free by then:
 * it was decided without them. */
static unsigned n_in_the_way(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    unsigned n_spare = (unsigned)tally->group->n - relock_tally_quorum(tally);

    return tally->guarded.n_no > n_spare ? tally->guarded.n_no - n_spare : 1;
}

/* When enough of the leases in the way have ended for a quorum. */
static uint64_t free_at(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    const uint64_t *free_at_ms = tally->guarded.free_at_ms;
    unsigned n_missing = n_in_the_way(tally);
    uint64_t at_ms = RELOCK_NEVER;

    for (unsigned i = 0; i < tally->guarded.n_no; i++) {
        unsigned n_sooner = 0;

        for (unsigned j = 0; j < tally->guarded.n_no; j++)
            n_sooner += free_at_ms[j] <= free_at_ms[i];
        if (n_sooner >= n_missing && free_at_ms[i] < at_ms)
            at_ms = free_at_ms[i];
    }
    return at_ms;
}

/* Another owner has it, or several have votes: when the head asks again. */
static void refuse(const struct relock_acquire *acquire, const struct relock_tally *tally,
                   struct relock_answer *answer) RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    bool is_split = tally->guarded.n_no <= tally->group->n - relock_tally_quorum(tally);

    answer->verdict = RELOCK_VERDICT_BUSY;
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
    unsigned n_answers = tally->guarded.n_yes + tally->guarded.n_no;

    if (tally->guarded.n_yes >= quorum) {
        answer->verdict = RELOCK_VERDICT_DONE;
        answer->valid_until_ms = relock_tally_valid_until(tally);
    } else if (n_answers >= quorum) {
        refuse(acquire, tally, answer);
    } else {
        relock_tally_fail(tally, n_answers, answer);
    }
}

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

/* A fixed lease is renewed too while a collecting call waits for other locks. */
static struct relock_vote_terms terms_of(const struct relock_acquire *acquire)
{
    uint64_t max_ms = acquire->client->options.max_hold_ms;
    uint64_t now_ms = relock_clock_now_ms();

    return (struct relock_vote_terms){
        .sent_ms = now_ms,
        .lease_ms = acquire->lease_ms,
        .cap_ms = max_ms > 0 ? relock_clock_after(now_ms, max_ms) : RELOCK_NEVER,
        .renewed = acquire->waiter.renewed || acquire->stop,
    };
}

static void ask_once(struct relock_acquire *acquire, struct relock_hold *hold,
                     struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_vote_terms terms = terms_of(acquire);
    uint64_t limit_ms = relock_acquire_limit_ms(acquire, terms.sent_ms);
    struct relock_tally *tally = new_tally(acquire, hold);
    bool wanted[RELOCK_TALLY_MAX];

    if (!tally) {
        answer->verdict = RELOCK_VERDICT_FAILED;
        answer->result = RELOCK_E_NOMEM;
        return;
    }
    relock_tally_is_under(tally, acquire->client);
    for (size_t i = 0; i < RELOCK_TALLY_MAX; i++)
        wanted[i] = i < tally->group->n;
    answer->sent_ms = terms.sent_ms;
    relock_votes_ask(tally, wanted, &terms);
    relock_tally_wait(tally, relock_votes_limit_ms(terms.sent_ms, terms.lease_ms, limit_ms));
    judge(acquire, tally, answer);
    if (answer->verdict != RELOCK_VERDICT_DONE)
        relock_votes_let_go(tally);
}

/* Too few answered: a little pause before they are asked again. Returns RELOCK_AGAIN to do so. */
static int pause_before_retry(struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t until_ms =
        relock_clock_after(relock_clock_now_ms(),
                           UNREACHABLE_PAUSE_MS / 2 + relock_ident_jitter(UNREACHABLE_PAUSE_MS));

    relock_mutex_unlock(&acquire->client->mutex);
    (void)relock_gate_wait(&acquire->waiter.gate, until_ms);
    relock_mutex_lock(&acquire->client->mutex);
    if (!relock_client_is_open(acquire->client) || relock_cancel_is_fired(acquire->stop))
        return RELOCK_E_CLOSED;
    return relock_cancel_is_fired(acquire->how->cancel) ? RELOCK_CANCELLED : RELOCK_AGAIN;
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
        r = pause_before_retry(acquire);
    }
    answer->result = r;
}

static void listen_to_releases(struct relock_acquire *acquire, bool listens)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    relock_mutex_unlock(&acquire->client->mutex);
    relock_group_listen(relock_group_of(acquire->resource), listens);
    relock_mutex_lock(&acquire->client->mutex);
}

static void stop_listening(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    acquire->stop_listening = NULL;
    listen_to_releases(acquire, false);
}

void relock_redask(struct relock_acquire *acquire, struct relock_hold *hold,
                   struct relock_answer *answer)
{
    ask_in_time(acquire, hold, relock_acquire_limit_ms(acquire, answer->sent_ms), answer);
    if (answer->verdict == RELOCK_VERDICT_BUSY && acquire->how->wait_ms > 0 &&
        !acquire->stop_listening) {
        acquire->stop_listening = stop_listening;
        listen_to_releases(acquire, true);
    }
}
