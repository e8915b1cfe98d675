#include "count/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/call/call.h"
#include "lock/hold/acquire.h"
#include "lock/state/owner.h"
#include "lock/wake/outbox.h"
#include "lock/wake/wake.h"
#include "redis/deployment/run.h"
#include "redis/server/reply.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- replies ------------------------------------------------------------------------------- */

struct answer {
    struct relock_number_reply reply;
    bool unanswered; /* the command may have run, or may yet run */
    char why[RELOCK_WHY_MAX];
};

/* A number as Redis writes it: without zeros in front. */
static bool read_text(const struct redisReply *reply, int64_t *value)
{
    const size_t most = 19; /* digits of INT64_MAX */
    uint64_t sum = 0;
    const char *text;
    size_t len, at;

    if (!relock_reply_text(reply, &text, &len))
        return false;
    at = len > 0 && text[0] == '-';
    if (len == at || len > at + most || (text[at] == '0' && len > 1))
        return false;
    for (size_t i = at; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        sum = sum * 10 + (uint64_t)(text[i] - '0');
    }
    if (sum > (uint64_t)INT64_MAX + at)
        return false;
    *value = (int64_t)(at > 0 ? -sum : sum);
    return true;
}

bool relock_number_read(const struct redisReply *reply, struct relock_number_reply *read)
{
    int64_t n_receivers;

    *read = (struct relock_number_reply){0};
    if (relock_reply_integer(relock_reply_at(reply, 1), &n_receivers)) {
        read->is_published = n_receivers >= 0;
        read->is_refused = n_receivers < 0;
        reply = relock_reply_at(reply, 0);
    }
    return relock_reply_is_nil(reply) || relock_reply_integer(reply, &read->value) ||
           read_text(reply, &read->value);
}

/* ---- one command --------------------------------------------------------------------------- */

static int run(const struct relock_lock *lock, const struct relock_number_command *command,
               uint64_t deadline_ms, struct answer *answer)
{
    struct relock_request request;
    struct relock_call *call = &request.call;
    int r;

    *answer = (struct answer){0};
    if (command->script)
        relock_request_number(&request, lock->resource, command->script, command->message,
                              command->n);
    else
        relock_request_get(&request, lock->resource);
    call->is_once = command->script != NULL;
    r = relock_call_run(call, lock->client->topology, deadline_ms);
    if (r == RELOCK_OK && !relock_number_read(call->reply, &answer->reply)) {
        (void)snprintf(call->why, sizeof(call->why), "the key has data that is no number");
        r = RELOCK_E_SERVER;
    }
    answer->unanswered = r != RELOCK_OK && call->is_once && call->unanswered;
    (void)snprintf(answer->why, sizeof(answer->why), "%.120s%s", call->why,
                   answer->unanswered ? "; it may have been done, or may yet be: the command is "
                                        "not repeated"
                                      : "");
    relock_call_end(call);
    return r;
}

/* Whether the change may let a waiter through. Another one must not be echoed: the message would
 * open a latch in Redisson's waiters that was just closed. */
static bool lets_through(const struct relock_lock *lock,
                         const struct relock_number_command *command)
{
    return command->message[0] == '\0' ||
           strcmp(command->message, lock->resource->kind->message) == 0;
}

/* May unlock the mutex. */
static void follow_change(struct relock_lock *lock, const struct relock_number_command *command,
                          const struct answer *answer) RELOCK_REQUIRES(lock->client->mutex)
{
    if (!answer->reply.is_published && !answer->reply.is_refused)
        return;
    if (lets_through(lock, command))
        relock_echo_release(lock->client, lock->resource);
    if (!answer->reply.is_refused)
        return;
    relock_resource_signal(lock->resource, false);
    relock_lock_log_under(lock->client, lock, 0,
                          "changed, but the server refused PUBLISH, so waiters of other clients "
                          "got no message; see docs/wire.md#rights",
                          0, "");
}

int relock_number_run(struct relock_lock *lock, const struct relock_number_command *command,
                      int64_t *value)
{
    struct relock_guard guard;
    struct answer answer;
    int r;

    if (!relock_client_enter(lock->client, true, &guard))
        return guard.result;
    relock_mutex_unlock(&lock->client->mutex);
    r = run(lock, command, relock_clock_in(lock->client->options.command_timeout_ms), &answer);
    if (r < 0)
        relock_lock_log(lock, relock_owner_self(), command->failed, r, answer.why);
    relock_mutex_lock(&lock->client->mutex);
    follow_change(lock, command, &answer);
    relock_client_exit(lock->client, &guard);
    assert(r <= 0);
    if (r == RELOCK_OK)
        *value = answer.reply.value;
    return r;
}

/* ---- waiting ------------------------------------------------------------------------------- */

struct wait {
    struct relock_acquire acquire;
    struct relock_how how;
    const struct relock_number_command *command;
    enum relock_number_verdict (*judge)(int64_t value);
    bool unanswered; /* its last command */
};

static struct wait *wait_of(struct relock_acquire *acquire)
{
    return RELOCK_CONTAINER(struct wait, acquire, acquire);
}

/* Ends all waits that began at this `moment` of the client or before. */
static void let_all_through(struct relock_resource *queue, uint64_t moment)
{
    struct relock_waiter *at, *next;

    DL_FOREACH_SAFE(queue->queue, at, next)
    {
        if (at->joined_at > moment)
            continue;
        relock_resource_dequeue(queue, at);
        relock_resource_end_wait(at, RELOCK_WAITER_GRANTED, &queue->client->mutex);
    }
}

static void let_through(struct relock_acquire *acquire, enum relock_number_verdict verdict,
                        uint64_t moment) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_resource *queue = acquire->waiter.queues_on;

    relock_resource_dequeue(queue, &acquire->waiter);
    if (verdict == RELOCK_NUMBER_ALL)
        let_all_through(queue, moment);
    if (queue->queue) /* the new head may be subscribed to nothing yet */
        relock_resource_signal(queue, false);
}

/* Sees to it that the next change wakes this process. */
static int wait_for_change(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_resource *queue = acquire->waiter.queues_on;

    if (!queue->contention) {
        relock_resource_signal(queue, false);
        return RELOCK_E_NOMEM;
    }
    relock_resource_learn(queue);
    relock_subscription_want(acquire->client, queue);
    return RELOCK_BUSY;
}

static int take_answer(struct relock_acquire *acquire, int result,
                       enum relock_number_verdict verdict, uint64_t moment)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    if (result != RELOCK_OK) {
        relock_waiter_failed(acquire, result);
        return result;
    }
    if (verdict == RELOCK_NUMBER_NOBODY)
        return wait_for_change(acquire);
    let_through(acquire, verdict, moment);
    return RELOCK_OK;
}

/* For the queue, in the words of locks. */
static enum relock_verdict verdict_of(int result, enum relock_number_verdict verdict)
{
    if (result != RELOCK_OK)
        return RELOCK_VERDICT_FAILED;
    return verdict == RELOCK_NUMBER_NOBODY ? RELOCK_VERDICT_BUSY : RELOCK_VERDICT_DONE;
}

/* Runs the command. Returns RELOCK_OK and the verdict, or the failure. */
static int ask(struct relock_acquire *acquire, enum relock_number_verdict *verdict)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct wait *wait = wait_of(acquire);
    uint64_t limit_ms = relock_acquire_limit_ms(acquire, relock_clock_now_ms());
    struct answer answer;
    int r;

    relock_mutex_unlock(&acquire->client->mutex);
    r = run(acquire->lock, wait->command, limit_ms, &answer);
    relock_mutex_lock(&acquire->client->mutex);
    if (r < 0)
        relock_acquire_keep_why(acquire, answer.why);
    wait->unanswered = answer.unanswered;
    *verdict = r == RELOCK_OK ? wait->judge(answer.reply.value) : RELOCK_NUMBER_NOBODY;
    return r;
}

/* One attempt of a call in the queue: see relock_waiter_wait(). */
static int attempt(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_answer answer = {0};
    enum relock_number_verdict verdict;
    uint64_t moment;
    int r;

    relock_waiter_asks(acquire);
    moment = acquire->client->guarded.moment;
    answer.result = ask(acquire, &verdict);
    answer.verdict = verdict_of(answer.result, verdict);
    relock_waiter_answered(acquire, &answer);
    r = take_answer(acquire, answer.result, verdict, moment);
    acquire->waiter.is_asking = false;
    return r;
}

/* Not in the queue, where calls may wait for more. */
static int try_once(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    enum relock_number_verdict verdict;
    int r = ask(acquire, &verdict);

    return r == RELOCK_OK && verdict == RELOCK_NUMBER_NOBODY ? RELOCK_BUSY : r;
}

static int64_t needs(const struct relock_waiter *waiter)
{
    const struct relock_acquire *acquire = RELOCK_CONTAINER(struct relock_acquire, waiter, waiter);
    const struct wait *wait = RELOCK_CONTAINER(struct wait, acquire, acquire);

    return wait->command->n ? *wait->command->n : 0;
}

/* Leaves the queue. If the first leaves without the permits, there may be enough for the next, and
 * no message will say so. */
static void leave_to_next(struct relock_acquire *acquire, int result)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_resource *queue = acquire->resource;
    bool was_first = queue->queue == &acquire->waiter;

    relock_waiter_leave(acquire, result);
    if (was_first && queue->queue && needs(queue->queue) < needs(&acquire->waiter))
        relock_resource_signal(queue, false);
}

static int wait_in_queue(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    int r;

    relock_waiter_begin(acquire, acquire->resource);
    r = relock_waiter_wait(acquire, attempt);
    leave_to_next(acquire, r);
    if (r == RELOCK_OK)
        relock_subscription_idle(acquire->client, acquire->resource);
    /* For a lock, a command that is unanswered at the deadline is a timeout: it is cleaned up. */
    return wait_of(acquire)->unanswered ? RELOCK_E_CONN : r;
}

static int wait_or_try(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    int r = relock_waiter_ended(acquire);

    if (r == RELOCK_BUSY)
        r = acquire->waiter.tries ? try_once(acquire) : wait_in_queue(acquire);
    if (r < 0 && !relock_take_is_answer(r))
        relock_lock_log_under(acquire->client, acquire->lock, acquire->waiter.owner,
                              wait_of(acquire)->command->failed, r, acquire->why);
    return r;
}

int relock_number_wait(struct relock_lock *lock, const struct relock_number_command *command,
                       enum relock_number_verdict (*judge)(int64_t value), int64_t wait_ms,
                       struct relock_cancel *cancel)
{
    struct wait wait = {
        .how = {.wait_ms = wait_ms, .cancel = cancel},
        .command = command,
        .judge = judge,
    };
    struct relock_acquire *acquire = &wait.acquire;
    struct relock_guard guard;
    int r;

    relock_take_init(acquire, lock, &wait.how, NULL, RELOCK_NEVER);
    relock_waiter_watch_cancels(acquire);
    if (relock_client_enter(acquire->client, true, &guard)) {
        r = wait_or_try(acquire);
        relock_client_exit(acquire->client, &guard);
    } else {
        r = guard.result;
    }
    relock_waiter_unwatch_cancels(acquire);
    assert(r <= 0);
    return r;
}
