/*
 * The hold is RELEASING until the answer has come, as while a call waits for it. If the answer is
 * lost, the hold is SETTLING. In both, later calls for the lock wait until it has ENDED.
 */
#include "lock/call/call.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "lock/hold/holds.h"
#include "lock/state/observer.h"
#include "lock/state/step.h"
#include "lock/wake/outbox.h"
#include "redis/connect/explain.h"
#include "redis/deployment/run.h"
#include "redis/io/io.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>

/* How long the answer may lie in the socket of a lane that no call uses. */
#define UNREAD_MS 10

/* How soon a thread that waits for an answer notices that its call was stopped. */
#define LOOK_MS 50

/* The thread that is about to read an answer has not begun. */
#define BEHIND_MS 1

/* A release whose caller has returned. On the heap; freed with its hold. Guarded by the mutex of
 * the client, except `post`: see redis/deployment/run.h. */
struct relock_deferral {
    struct relock_post post; /* first */
    struct relock_observer observer;
    struct relock_lock lock; /* a handle of its own */
    struct relock_hold *hold;
    struct relock_release_view view;
    uint64_t serial;                     /* of the client's next hold, when this was made */
    bool is_posted;                      /* the place of the post is known */
    struct relock_deferral *next, *prev; /* of the primary resource, the oldest first */
};

static struct relock_deferral *find(const struct relock_resource *resource,
                                    const struct relock_hold *hold)
{
    struct relock_deferral *at;

    DL_FOREACH(resource->primary->deferrals, at)
    if (at->hold == hold)
        return at;
    return NULL;
}

static struct relock_deferral *first(const struct relock_resource *resource, uint64_t serial)
{
    struct relock_deferral *at;

    DL_FOREACH(resource->primary->deferrals, at)
    if (at->hold->state != RELOCK_HOLD_ENDED && at->serial <= serial)
        return at;
    return NULL;
}

/* ---- reading answers in time ---------------------------------------------------------------- */

static void read_within(struct relock_client *client, uint64_t ms) RELOCK_REQUIRES(client->mutex);

/* Unchecked: the I/O thread calls it with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED static void read_answers(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_client *client = RELOCK_CONTAINER(struct relock_client, guarded.unread, timer);

    (void)now_ms;
    relock_mutex_unlock(&client->mutex);
    relock_node_io_read(client->topology);
    relock_mutex_lock(&client->mutex);
    if (client->guarded.n_deferred > 0)
        read_within(client, client->guarded.state == RELOCK_CLIENT_FREED ? 1 : UNREAD_MS);
}

/* Or sooner, if that was said before. */
static void read_within(struct relock_client *client, uint64_t ms)
{
    struct relock_timer *timer = &client->guarded.unread;
    uint64_t due_ms = relock_clock_in(ms);

    if (relock_timer_is_set(&client->guarded.timers, timer) && timer->link.due_ms <= due_ms)
        return;
    timer->fire = read_answers;
    relock_client_set_timer(client, timer, due_ms);
}

void relock_defer_hurry(struct relock_client *client)
{
    if (client->guarded.n_deferred > 0)
        read_within(client, 1);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void forget(struct relock_deferral *deferral)
{
    DL_DELETE(deferral->lock.resource->primary->deferrals, deferral);
    free(deferral);
}

static void on_gone(struct relock_observer *observer)
{
    forget(RELOCK_CONTAINER(struct relock_deferral, observer, observer));
}

static const struct relock_observer_ops observer_ops = {.gone = on_gone};

/* The I/O thread follows a redirection, and brings a missing script. */
static bool is_passing(const char *error)
{
    enum relock_refusal refusal = relock_refusal_of(error);

    return refusal == RELOCK_REFUSED_MOVED || refusal == RELOCK_REFUSED_SCRIPT;
}

static void read_answer(struct relock_deferral *deferral, struct relock_answer *answer)
    RELOCK_REQUIRES(deferral->lock.client->mutex)
{
    struct relock_exchange *exchange = &deferral->post.posted.exchange;
    const char *error = exchange->result == RELOCK_OK ? relock_reply_error(exchange->reply) : NULL;

    if (exchange->result == RELOCK_OK && !error) {
        relock_commands_read_release(deferral->lock.client, deferral->hold, false, exchange->reply,
                                     answer);
        return;
    }
    answer->verdict = RELOCK_VERDICT_FAILED;
    answer->result = error ? relock_refusal_result(relock_refusal_of(error)) : RELOCK_E_CONN;
    answer->unanswered = exchange->sent;
    answer->is_reported = error && is_passing(error);
    if (error)
        relock_explain(answer->why, deferral->hold->resource->kind->unlock, error);
    else
        (void)snprintf(answer->why, RELOCK_WHY_MAX, "%s", exchange->why);
    if (exchange->sent)
        deferral->hold->fence = exchange->conn_id;
}

/* Any thread: the one that drives the lane. Unchecked: for clang the client of `lock` is another
 * one. */
RELOCK_UNCHECKED static void on_answer(struct relock_post *post)
{
    struct relock_deferral *deferral = RELOCK_CONTAINER(struct relock_deferral, post, post);
    struct relock_client *client = deferral->lock.client;
    struct relock_release_view view = deferral->view;
    struct redisReply *reply = post->posted.exchange.reply;
    struct relock_lock lock = deferral->lock;
    struct relock_hold *hold = deferral->hold;
    char why[RELOCK_WHY_MAX] = "";
    struct relock_answer answer = {.why = why};

    relock_mutex_lock(&client->mutex);
    (void)relock_holds_ref(hold);
    lock.resource->refs++;
    relock_observer_add(client, hold, &deferral->observer);
    read_answer(deferral, &answer);
    (void)relock_release_end_last(&lock, hold, &view, &answer);
    client->guarded.n_deferred--;
    relock_holds_unref(client, hold);
    relock_resources_unref(client, lock.resource);
    relock_cond_broadcast(&client->changed);
    relock_mutex_unlock(&client->mutex);
    relock_reply_free(reply);
}

/* ---- the release --------------------------------------------------------------------------- */

static bool has_waiters(const struct relock_resource *resource)
{
    return resource->queue || relock_resource_contention(resource)->listeners;
}

/* Waiters of this process would learn of it late. */
static bool is_awaited(const struct relock_resource *resource)
{
    const struct relock_resource *at;

    if (has_waiters(resource->primary))
        return true;
    DL_FOREACH2(relock_resource_secondaries(resource->primary), at, as.secondary.next)
    if (has_waiters(at))
        return true;
    return false;
}

static bool is_possible(const struct relock_lock *lock, const struct relock_hold *hold)
    RELOCK_REQUIRES(lock->client->mutex)
{
    return (lock->client->options.flags & RELOCK_DEFER_RELEASES) &&
           !lock->resource->kind->is_composite && !hold->fence && hold->n_unanswered == 0 &&
           !is_awaited(lock->resource);
}

static struct relock_deferral *new_deferral(struct relock_lock *lock, struct relock_hold *hold,
                                            const struct relock_release_view *view)
{
    struct relock_deferral *new = malloc(sizeof(*new));

    if (!new)
        return NULL;
    new->post.posted = (struct relock_posted){0};
    new->post.fn = on_answer;
    new->observer = (struct relock_observer){.ops = &observer_ops};
    new->lock = *lock;
    new->hold = hold;
    new->view = *view;
    new->view.is_deferred = true;
    new->serial = lock->client->guarded.serial;
    new->is_posted = false;
    return new;
}

/* Unlocks the mutex meanwhile. Unchecked: for clang, the client of the deferral is another one. */
RELOCK_UNCHECKED static bool post(struct relock_deferral *deferral, uint64_t deadline_ms)
{
    struct relock_client *client = deferral->lock.client;
    struct relock_request request;
    int r;

    relock_request_unlock(&request, deferral->hold, 0, false);
    relock_mutex_unlock(&client->mutex);
    r = relock_call_post(&request.call, client->topology, deadline_ms, &deferral->post);
    relock_mutex_lock(&client->mutex);
    return r == RELOCK_OK;
}

/* It was not sent: calls that wait for it go on as without it. Unchecked: as post(). */
RELOCK_UNCHECKED static void give_up(struct relock_deferral *deferral)
{
    struct relock_client *client = deferral->lock.client;
    struct relock_hold *hold = deferral->hold;

    client->guarded.n_deferred--;
    forget(deferral);
    hold->is_deferred = false;
    relock_step_pass(hold);
    relock_cond_broadcast(&client->changed);
}

bool relock_defer(struct relock_lock *lock, struct relock_hold *hold,
                  const struct relock_release_view *view, uint64_t deadline_ms)
{
    struct relock_deferral *new = is_possible(lock, hold) ? new_deferral(lock, hold, view) : NULL;
    bool is_posted;

    if (!new)
        return false;
    DL_APPEND(lock->resource->primary->deferrals, new);
    hold->is_deferred = true;
    lock->client->guarded.n_deferred++;
    (void)relock_holds_ref(hold);
    is_posted = post(new, deadline_ms);
    if (!is_posted) {
        give_up(new);
    } else if (hold->state == RELOCK_HOLD_RELEASING) { /* not answered yet */
        new->is_posted = true;
        read_within(lock->client, UNREAD_MS);
    }
    lock->client->guarded.stats.deferred += is_posted;
    relock_holds_unref(lock->client, hold);
    return is_posted;
}

/* ---- later calls --------------------------------------------------------------------------- */

/* Reads answers itself, if no other thread does; or waits for a change. Unlocks the mutex. */
static void wait_once(struct relock_client *client, struct relock_hold *hold, uint64_t until_ms)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_deferral *deferral = find(hold->resource, hold);

    if (deferral && deferral->is_posted && hold->state == RELOCK_HOLD_RELEASING) {
        struct relock_post_place place = relock_post_place(&deferral->post);
        bool reads;

        relock_mutex_unlock(&client->mutex);
        reads = relock_post_read(place, until_ms);
        relock_mutex_lock(&client->mutex);
        if (reads)
            return;
    }
    if (hold->state == RELOCK_HOLD_RELEASING)
        until_ms = relock_clock_sooner(until_ms, relock_clock_in(BEHIND_MS));
    if (hold->state != RELOCK_HOLD_ENDED)
        (void)relock_cond_wait_until(&client->changed, &client->mutex, until_ms);
}

/* Unchecked: `client` is that of the call. */
RELOCK_UNCHECKED static bool is_stopped(const struct relock_acquire *acquire)
{
    return acquire && relock_take_is_stopped(acquire);
}

/* `acquire`: the call that waits; NULL: nothing stops it. */
static bool wait_for(struct relock_client *client, struct relock_hold *hold,
                     const struct relock_acquire *acquire, uint64_t until_ms)
    RELOCK_REQUIRES(client->mutex)
{
    bool is_over;

    (void)relock_holds_ref(hold);
    while (hold->state != RELOCK_HOLD_ENDED && find(hold->resource, hold) &&
           relock_clock_now_ms() < until_ms && !is_stopped(acquire))
        wait_once(client, hold, relock_clock_sooner(until_ms, relock_clock_in(LOOK_MS)));
    is_over = hold->state == RELOCK_HOLD_ENDED || !find(hold->resource, hold);
    relock_holds_unref(client, hold);
    return is_over;
}

bool relock_defer_await(struct relock_client *client, struct relock_resource *resource,
                        const struct relock_acquire *acquire, uint64_t until_ms)
{
    uint64_t serial = client->guarded.serial;
    const struct relock_deferral *deferral;

    while ((deferral = first(resource, serial)))
        if (!wait_for(client, deferral->hold, acquire, until_ms))
            return false;
    return true;
}

struct relock_hold *relock_defer_first(const struct relock_resource *resource, uint64_t serial)
{
    const struct relock_deferral *deferral = first(resource, serial);

    return deferral ? deferral->hold : NULL;
}
