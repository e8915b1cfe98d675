/*
 * One level more for an owner that has the lock: one command, no waiting.
 */
#include "base/clock.h"
#include "lock/acquire.h"
#include "lock/holds.h"
#include "lock/redlock.h"
#include "lock/settle.h"

/*
 * The owner has for itself, too, what began for a multi lock: should it lose it after that, it is
 * told. By the client, for whoever nests is not asked for a callback.
 */
static void become_own(const struct relock_client *client, struct relock_hold *hold)
{
    hold->on_lost = client->options.on_lost;
    hold->arg = client->options.arg;
}

static int take_nested_answer(struct relock_acquire *acquire, struct relock_hold *hold,
                              const struct relock_request *request, uint64_t sent_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t counter; /* of a fenced lock, now: the token of the hold is what it was */
    int64_t ttl_ms;

    if (!relock_hold_is_held(hold))
        return RELOCK_LOST; /* meanwhile */
    if (relock_request_is_granted(request, &counter)) {
        hold->count++;
        hold->renewed = hold->renewed || acquire->how->lease_ms == 0;
        if (hold->of_whole && !acquire->stop)
            become_own(acquire->client, hold);
        relock_holds_prolong(acquire->client, hold, sent_ms, acquire->lease_ms);
        return RELOCK_OK;
    }
    if (!relock_request_answer(request, &ttl_ms)) {
        relock_acquire_keep_why(acquire, "an answer that is none");
        return RELOCK_E_SERVER;
    }
    relock_holds_lose(acquire->client, hold, ttl_ms == -2 ? RELOCK_LOST_GONE : RELOCK_LOST_TAKEN,
                      now_ms);
    return RELOCK_LOST;
}

int relock_acquire_nest(struct relock_acquire *acquire, struct relock_hold *hold)
{
    struct relock_request request;
    uint64_t sent_ms;
    int r;

    relock_holds_check_time(acquire->client, hold, relock_clock_now_ms());
    if (hold->state == RELOCK_HOLD_LOST)
        return RELOCK_LOST;
    if (acquire->how->flags & RELOCK_NON_REENTRANT)
        return RELOCK_E_DEADLOCK;

    if (hold->ballot) {
        r = relock_redlock_nest(acquire->client, hold, acquire->how->lease_ms,
                                relock_acquire_limit_ms(acquire, relock_clock_now_ms()));
        if (r == RELOCK_OK)
            acquire->hold = relock_holds_ref(hold);
        return r;
    }

    relock_holds_work(hold, acquire->lease_ms);
    relock_acquire_request(acquire, &request, hold, hold->count + 1);
    request.call.debt = &hold->debt;
    relock_mutex_unlock(&acquire->client->mutex);
    sent_ms = relock_clock_now_ms();
    r = relock_request_run_until(&request, acquire->client,
                                 relock_acquire_limit_ms(acquire, sent_ms));
    relock_mutex_lock(&acquire->client->mutex);
    hold->untold = r != RELOCK_OK;
    relock_holds_rest(acquire->client, hold);
    relock_settle_await(acquire->client, hold, &request.call);

    if (r == RELOCK_OK)
        r = take_nested_answer(acquire, hold, &request, sent_ms);
    else
        relock_acquire_keep_why(acquire, request.call.why);
    if (r == RELOCK_OK)
        acquire->hold = relock_holds_ref(hold);
    relock_call_end(&request.call);
    relock_holds_unref(acquire->client, hold);
    return r;
}
