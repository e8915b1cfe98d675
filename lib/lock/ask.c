/*
 * Asking Redis for a lock, and what comes of the answer.
 *
 * Each try has a number of its own. One that may have been granted without our knowing, or was of
 * no use when it was, is given back or settled; whoever is head then has the same reason to ask.
 */
#include "base/clock.h"
#include "base/status.h"
#include "lock/acquire.h"
#include "lock/holds.h"
#include "lock/redlock.h"
#include "lock/settle.h"

#include <stdio.h>

/* The holder's lease ends in less than Redis can say: no reason to ask in a loop. */
#define SHORTEST_WAIT_MS 1

void relock_acquire_request(const struct relock_acquire *acquire, struct relock_request *request,
                            const struct relock_hold *hold, unsigned count)
{
    struct relock_site *site = acquire->site;

    relock_request_lock(request, site, hold->number, count, acquire->lease_ms);
    if (site->kind->home)
        relock_request_beside(request, relock_site_home(site), acquire->write_number);
    if (site->kind->is_queued)
        relock_request_queue(request, site, acquire->how->wait_ms > 0);
}

/* Granted, and of no use: Redis is told at once, so that whoever tries again is not in its way. */
static void give_back(struct relock_acquire *acquire, struct relock_hold *hold)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t limit_ms = relock_acquire_limit_ms(acquire, relock_clock_now_ms());
    struct relock_request request;
    int r;

    relock_request_unlock(&request, acquire->site, hold->number, 0);
    request.call.debt = &hold->debt;
    relock_mutex_unlock(&acquire->client->mutex);
    r = relock_request_run_until(&request, acquire->client, limit_ms);
    relock_mutex_lock(&acquire->client->mutex);

    relock_settle_await(acquire->client, hold, &request.call);
    relock_call_end(&request.call);
    if (r < 0)
        relock_holds_settle(acquire->client, hold, relock_clock_now_ms());
    else
        relock_holds_end(acquire->client, hold);
    relock_site_add_news(acquire->waiter.line, false);
}

static int take_granted(struct relock_acquire *acquire, struct relock_hold *hold,
                        const struct relock_call *call, uint64_t sent_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    const struct relock_options *options = &acquire->client->options;

    /* Another thread asked for the same owner at the same time: an owner has one hold. */
    if (relock_site_find(acquire->site, acquire->waiter.owner)) {
        give_back(acquire, hold);
        return RELOCK_AGAIN;
    }
    if (call->acked_replicas < options->min_replicas) {
        give_back(acquire, hold);
        relock_acquire_keep_why(acquire, *call->why ? call->why : "given back");
        return RELOCK_E_REPLICAS;
    }
    if (relock_clock_now_ms() >= relock_hold_valid_until(sent_ms, acquire->lease_ms)) {
        give_back(acquire, hold);
        relock_acquire_keep_why(acquire, "granted when the lease was all but over, and given back");
        return RELOCK_E_CONN;
    }
    hold->acked_replicas = call->acked_replicas;
    if (acquire->stop && !acquire->waiter.renewed) {
        hold->kept = true;
        hold->renewal_ms = acquire->lease_ms;
    }
    relock_holds_begin(acquire->client, hold, &acquire->waiter, sent_ms);
    acquire->hold = relock_holds_ref(hold);
    return RELOCK_OK;
}

static int take_refused(struct relock_acquire *acquire, struct relock_hold *hold,
                        const struct relock_call *call, int64_t ttl_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_site *site = acquire->waiter.line;
    uint64_t now_ms = relock_clock_now_ms();

    relock_site_learn(site);
    if (ttl_ms >= 0)
        site->lease_end_ms = relock_clock_after(now_ms, (uint64_t)ttl_ms + SHORTEST_WAIT_MS);
    else
        site->lease_end_ms = ttl_ms == -1 ? RELOCK_NEVER : now_ms + SHORTEST_WAIT_MS;

    acquire->contended = true;
    if (acquire->site->kind->is_queued && acquire->how->wait_ms > 0) {
        acquire->queued = hold;
        return RELOCK_BUSY;
    }
    /* An attempt before this one went unanswered, and may yet be granted. */
    if (call->unanswered)
        relock_holds_settle(acquire->client, hold, now_ms);
    else
        relock_holds_end(acquire->client, hold);
    return RELOCK_BUSY;
}

static int take_failure(struct relock_acquire *acquire, struct relock_hold *hold,
                        struct relock_call *call, uint64_t sent_ms, int result)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t whole_ms = relock_clock_after(sent_ms, acquire->client->options.command_timeout_ms);

    relock_acquire_keep_why(acquire, call->why);
    relock_settle_await(acquire->client, hold, call);
    if (call->unanswered || acquire->site->kind->is_queued)
        relock_holds_settle(acquire->client, hold, relock_clock_now_ms());
    else
        relock_holds_end(acquire->client, hold);
    /* This try has taken the news and learned nothing: the next head has the same reason. */
    relock_site_add_news(acquire->waiter.line, false);
    if (result == RELOCK_E_CONN && relock_acquire_limit_ms(acquire, sent_ms) == whole_ms)
        relock_site_end_unreached(acquire->waiter.line, sent_ms);
    return result;
}

static int take_answer(struct relock_acquire *acquire, struct relock_hold *hold,
                       struct relock_request *request, uint64_t sent_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_call *call = &request->call;
    int64_t ttl_ms;

    if (relock_request_is_granted(request, &hold->fencing_token))
        return take_granted(acquire, hold, call, sent_ms);
    if (relock_request_answer(request, &ttl_ms))
        return take_refused(acquire, hold, call, ttl_ms);
    (void)snprintf(call->why, sizeof(call->why), "an answer that is none");
    return take_failure(acquire, hold, call, sent_ms, RELOCK_E_SERVER);
}

/* The hold to be. One that has a place in Redis' queue keeps it, and its number, until it ends. */
static struct relock_hold *begin_to_ask(struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_hold *hold = acquire->queued;

    acquire->queued = NULL;
    if (hold)
        return hold;
    hold = relock_holds_new(acquire->client, acquire->site, acquire->waiter.owner);
    if (!hold)
        return NULL;
    hold->lease_ms = acquire->lease_ms;
    if (acquire->waiter.line != acquire->site)
        relock_site_kin(acquire->waiter.line)->number = hold->number;
    return hold;
}

int relock_acquire_ask(struct relock_acquire *acquire)
{
    struct relock_site *line = acquire->waiter.line;
    struct relock_request request;
    struct relock_hold *hold;
    uint64_t sent_ms;
    int r;

    if (acquire->site->group)
        return relock_redlock_ask(acquire);
    hold = begin_to_ask(acquire);
    if (!hold)
        return RELOCK_E_NOMEM;
    if (line->queue == &acquire->waiter)
        line->news = false;
    acquire->waiter.has_asked = true;
    relock_acquire_request(acquire, &request, hold, 1);
    request.call.debt = &hold->debt;
    request.call.min_replicas = acquire->client->options.min_replicas;
    request.call.replica_timeout_ms = acquire->client->options.replica_timeout_ms;

    sent_ms = relock_clock_now_ms();
    relock_site_doubt(line, sent_ms);
    acquire->waiter.is_asking = true;
    relock_mutex_unlock(&acquire->client->mutex);
    r = relock_request_run_until(&request, acquire->client,
                                 relock_acquire_limit_ms(acquire, sent_ms));
    relock_mutex_lock(&acquire->client->mutex);

    acquire->waiter.is_asking = false;
    line->asked_ms = relock_clock_now_ms();
    if (r == RELOCK_OK && acquire->waiter.end == RELOCK_WAITER_UNREACHED)
        acquire->waiter.end = RELOCK_WAITER_WAITS; /* it has been reached */
    if (r == RELOCK_OK)
        r = take_answer(acquire, hold, &request, sent_ms);
    else
        r = take_failure(acquire, hold, &request.call, sent_ms, r);
    relock_call_end(&request.call);
    return r;
}
