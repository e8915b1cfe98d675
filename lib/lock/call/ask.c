/*
 * One attempt at the first level, and the consequences of its answer.
 *
 * Each attempt has a number of its own. A grant that comes too late is released; a command that
 * may have run is settled. Either way the retry stays pending for the next head.
 */
#include "lock/call/call.h"

#include "base/clock.h"
#include "base/status.h"
#include "lock/hold/holds.h"
#include "lock/wake/wake.h"

/* The hold to ask for. A hold with a place in the queue in Redis is used again, with its number. */
static struct relock_hold *take_hold(struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_hold *hold = acquire->queued;

    acquire->queued = NULL;
    if (hold)
        return hold;
    hold = relock_holds_new(acquire->client, acquire->resource, acquire->waiter.owner, false);
    if (!hold)
        return NULL;
    hold->lease_ms = acquire->lease_ms;
    if (acquire->resource->kind->has_permits)
        hold->n_permits = relock_acquire_n_permits(acquire);
    if (acquire->waiter.queues_on != acquire->resource)
        acquire->waiter.queues_on->as.secondary.number = hold->number;
    return hold;
}

/* The hold is not wanted: settles it if Redis may have it. */
static void drop(struct relock_acquire *acquire, struct relock_hold *hold, bool may_be_held)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    if (may_be_held)
        acquire->resource->kind->operations->let_go(acquire->client, hold, relock_clock_now_ms());
    else
        relock_holds_end(acquire->client, hold);
}

/* Releases an unusable grant at once, so that it does not block the next attempt. */
static void release_useless(struct relock_acquire *acquire, struct relock_hold *hold)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    char why[RELOCK_WHY_MAX] = "";
    struct relock_answer answer = {.sent_ms = now_ms, .why = why};

    if (acquire->waiter.step) { /* its thread waits for no answer */
        drop(acquire, hold, true);
        relock_resource_signal(acquire->waiter.queues_on, false);
        return;
    }
    acquire->resource->kind->operations->release(acquire->client, hold,
                                                 relock_acquire_limit_ms(acquire, now_ms), &answer);
    drop(acquire, hold, answer.verdict == RELOCK_VERDICT_FAILED);
    relock_resource_signal(acquire->waiter.queues_on, false);
}

static int take_granted(struct relock_acquire *acquire, struct relock_hold *hold,
                        const struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    int r = answer->result;

    /* An owner has one hold, unless these have permits: another thread has acquired it for the same
     * owner meanwhile. */
    if (relock_resource_find_levels(acquire->resource, acquire->waiter.owner)) {
        r = RELOCK_AGAIN;
    } else if (r == RELOCK_OK && relock_acquire_now_ms(acquire) >= answer->valid_until_ms) {
        relock_acquire_keep_why(acquire, "granted too late, with the lease almost over; released");
        r = RELOCK_E_CONN;
    }
    if (r != RELOCK_OK) {
        release_useless(acquire, hold);
        return r;
    }
    hold->acked_replicas =
        (uint16_t)(answer->acked_replicas < UINT16_MAX ? answer->acked_replicas : UINT16_MAX);
    hold->recalled |= answer->busy.is_awaited;
    relock_holds_begin(acquire->client, hold, &acquire->waiter, answer->sent_ms, acquire->now_us);
    relock_line_granted(acquire->client, acquire->resource, acquire->joins);
    acquire->hold = relock_holds_ref(hold);
    acquire->valid_until_ms = answer->valid_until_ms;
    if (acquire->resource->kind->operations->begin)
        acquire->resource->kind->operations->begin(acquire->client, hold);
    return RELOCK_OK;
}

/* Sees to it that the next release wakes this process. */
static void wait_for_release(struct relock_acquire *acquire, const struct relock_busy *busy)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_resource *queue = acquire->waiter.queues_on;
    bool has_line = relock_kind_has_line(queue->kind);
    bool is_outside = !has_line || (acquire->joins && busy->place == 0);

    if (acquire->waiter.tries)
        return;
    relock_vigil_want(acquire->client, queue);
    is_outside |= has_line && !relock_inbox_want_for(acquire->client, queue);
    if (has_line && (acquire->joins || is_outside))
        relock_line_refused(acquire->client, queue, &acquire->sent, busy);
    if (is_outside)
        relock_subscription_want(acquire->client, queue);
    if (busy->place > 0)
        acquire->client->guarded.has_no_line = false;
    else if (has_line && acquire->joins && !busy->is_moving)
        relock_line_log_missing(acquire->client, acquire->lock);
}

/* There is no memory for a wait: ends the call as if it had not asked. The script may have put the
 * client in the line. */
static int forget_refusal(struct relock_acquire *acquire, struct relock_hold *hold,
                          const struct relock_answer *answer)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_resource *queue = acquire->waiter.queues_on;

    if (answer->busy.place > 0 && relock_kind_has_line(queue->kind))
        (void)relock_line_leave(acquire->client, queue->name, queue->name_len, queue->kind->side);
    drop(acquire, hold, answer->unanswered || queue->kind->is_queued);
    relock_resource_signal(queue, false);
    return RELOCK_E_NOMEM;
}

static uint64_t next_pause_ms(const struct relock_acquire *acquire)
{
    uint64_t min_ms, max_ms;

    relock_resource_pauses(acquire->resource, &min_ms, &max_ms);
    return relock_backoff_ms(acquire->pause_ms, min_ms, max_ms);
}

static int take_refused(struct relock_acquire *acquire, struct relock_hold *hold,
                        const struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_contention *contention = acquire->waiter.queues_on->contention;

    if (!contention && !acquire->waiter.tries)
        return forget_refusal(acquire, hold, answer);
    relock_resource_learn(acquire->waiter.queues_on);
    if (contention) {
        contention->lease_end_ms = answer->busy.free_at_ms;
        contention->n_intervals = answer->busy.n_intervals;
    }
    wait_for_release(acquire, &answer->busy);
    acquire->contended = true;
    acquire->pause_ms = answer->pause_ms > 0 ? answer->pause_ms : next_pause_ms(acquire);
    if (acquire->resource->kind->is_queued && acquire->how->wait_ms > 0)
        acquire->queued = hold;
    else
        drop(acquire, hold, answer->unanswered);
    return RELOCK_BUSY;
}

static int take_failure(struct relock_acquire *acquire, struct relock_hold *hold,
                        const struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    if (answer->unanswered && acquire->joins && relock_kind_has_line(acquire->resource->kind))
        relock_line_unanswered(acquire->client, hold);
    drop(acquire, hold, answer->unanswered || acquire->resource->kind->is_queued);
    relock_waiter_failed(acquire, answer->result);
    return answer->result;
}

static int take_answer(struct relock_acquire *acquire, struct relock_hold *hold,
                       const struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    if (answer->verdict == RELOCK_VERDICT_DONE)
        return take_granted(acquire, hold, answer);
    if (answer->verdict == RELOCK_VERDICT_BUSY)
        return take_refused(acquire, hold, answer);
    return take_failure(acquire, hold, answer);
}

/* Whether a refused attempt can join the queue of a fair lock, or the line of another. */
static bool may_join(const struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    const struct relock_kind *kind = acquire->resource->kind;

    return kind->is_queued || (relock_kind_has_line(kind) &&
                               relock_inbox_is_open_for(acquire->client, acquire->resource));
}

struct relock_hold *relock_ask_begin(struct relock_acquire *acquire, struct relock_answer *answer)
{
    struct relock_resource *queue = acquire->waiter.queues_on;
    struct relock_hold *hold = take_hold(acquire);

    if (!hold)
        return NULL;
    relock_waiter_asks(acquire); /* also while a useless grant is released */
    *answer =
        (struct relock_answer){.sent_ms = relock_acquire_now_ms(acquire), .why = acquire->why};
    acquire->joins = acquire->how->wait_ms > 0 && may_join(acquire);
    acquire->sent = relock_resource_view_line(queue);
    acquire->listens = acquire->resource->kind->is_queued && relock_subscription_is_active(queue);
    return hold;
}

int relock_ask_end(struct relock_acquire *acquire, struct relock_hold *hold,
                   const struct relock_answer *answer)
{
    int r;

    relock_waiter_answered(acquire, answer);
    r = take_answer(acquire, hold, answer);
    acquire->waiter.is_asking = false;
    return r;
}

__attribute__((flatten)) int relock_ask(struct relock_acquire *acquire)
{
    struct relock_answer answer;
    struct relock_hold *hold = relock_ask_begin(acquire, &answer);

    if (!hold)
        return RELOCK_E_NOMEM;
    acquire->resource->kind->operations->ask(acquire, hold, &answer);
    return relock_ask_end(acquire, hold, &answer);
}
