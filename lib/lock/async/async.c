#include "lock/async/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/holds.h"
#include "lock/state/kind.h"
#include "lock/state/resource.h"

#include <stdio.h>
#include <stdlib.h>

static struct relock_async *call_of(struct relock_event *event)
{
    return RELOCK_CONTAINER(struct relock_async, event, event);
}

static struct relock_async *call_of_command(struct relock_async_command *command)
{
    return RELOCK_CONTAINER(struct relock_async, command, command);
}

static void unref(struct relock_async *call)
{
    if (--call->refs == 0)
        free(call);
}

/* ---- behind a hold ------------------------------------------------------------------------- */

void relock_async_follow(struct relock_async *call, struct relock_hold *hold, uint64_t until_ms)
{
    relock_step_follow(&call->step, relock_holds_ref(hold));
    relock_async_sleep(call, until_ms);
}

/* Returns the hold, with the reference to it, or NULL. */
static struct relock_hold *stop_following(struct relock_async *call)
{
    struct relock_hold *ahead = call->step.ahead;

    relock_step_unfollow(&call->step);
    return ahead;
}

/* ---- its end ------------------------------------------------------------------------------- */

/* At the end of a client all resources are dropped, whoever refers to them. */
static void free_call(struct relock_client *client, struct relock_async *call)
    RELOCK_REQUIRES(client->mutex)
{
    if (client->guarded.state != RELOCK_CLIENT_FREED)
        relock_resources_unref(client, call->lock.resource);
    call->events = relock_events_unref(call->events);
    unref(call);
}

static void deliver(struct relock_client *client, struct relock_event *event)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_async *call = call_of(event);

    call->ops->deliver(call);
    free_call(client, call);
}

/* At the end of the client all holds are released. */
static void drop(struct relock_client *client, struct relock_event *event)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_async *call = call_of(event);

    if (call->result == RELOCK_OK && call->ops->undo &&
        client->guarded.state != RELOCK_CLIENT_FREED)
        call->ops->undo(call);
    free_call(client, call);
}

static void lose_queue(struct relock_client *client, struct relock_event *event)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_async *call = call_of(event);

    (void)client;
    call->is_unheard = true;
    if (call->ops->forget)
        call->ops->forget(call);
    relock_step_post(&call->step);
}

/* Unchecked: the I/O thread holds the mutex of the client. */
RELOCK_UNCHECKED void relock_async_end(struct relock_async *call, int result)
{
    struct relock_client *client = call->lock.client;
    struct relock_hold *ahead = stop_following(call);

    call->result = result;
    relock_client_unset_timer(client, &call->timer);
    if (ahead)
        relock_holds_unref(client, ahead);
    relock_client_take_back(client, &call->step.task);
    relock_client_end_call(client);
    if (!relock_events_end(call->events, &call->event))
        drop(client, &call->event);
}

/* ---- steps --------------------------------------------------------------------------------- */

/* If the call waited for a hold, other calls may wait for it, too. The next one goes on, unless
 * this call makes it wait. */
static void run(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_async *call = RELOCK_CONTAINER(struct relock_async, step.task, task);
    struct relock_hold *ahead = stop_following(call);

    call->ops->step(call);
    if (!ahead)
        return;
    relock_step_pass(ahead);
    relock_holds_unref(client, ahead);
}

static void fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_async *call = RELOCK_CONTAINER(struct relock_async, timer, timer);

    (void)now_ms;
    relock_step_post(&call->step);
}

/* Unchecked: the I/O thread holds the mutex of the client. */
RELOCK_UNCHECKED void relock_async_sleep(struct relock_async *call, uint64_t until_ms)
{
    if (until_ms == RELOCK_NEVER)
        relock_client_unset_timer(call->lock.client, &call->timer);
    else
        relock_client_set_timer(call->lock.client, &call->timer, until_ms);
}

void relock_async_fill_answer(const struct relock_async *call, int result,
                              struct relock_answer *answer)
{
    answer->unanswered = call->command.attempts.unanswered;
    if (result == RELOCK_OK)
        return;
    answer->verdict = RELOCK_VERDICT_FAILED;
    answer->result = result;
    (void)snprintf(answer->why, RELOCK_WHY_MAX, "%s", call->command.attempts.why);
}

/* ---- its script ---------------------------------------------------------------------------- */

static void write_command(struct relock_async_command *command, struct relock_request *request)
{
    struct relock_async *call = call_of_command(command);

    call->ops->write(call, request);
}

static void sent(struct relock_async_command *command)
{
    struct relock_async *call = call_of_command(command);

    call->ops->sent(call);
}

static void answered(struct relock_async_command *command, int result,
                     const struct redisReply *reply)
{
    struct relock_async *call = call_of_command(command);

    if (command->state != RELOCK_ASYNC_COMMAND_IDLE)
        call->refs++; /* until gone() */
    call->ops->answered(call, result, reply);
}

static void gone(struct relock_async_command *command)
{
    unref(call_of_command(command));
}

static const struct relock_async_command_ops command_ops = {
    .write = write_command,
    .sent = sent,
    .end = answered,
    .gone = gone,
};

/* ---- its beginning ------------------------------------------------------------------------- */

int relock_async_check(const struct relock_lock *lock, const struct relock_events *events)
{
    if (!lock)
        return relock_client_refuse(events ? events->client : NULL,
                                    "an asynchronous call: `lock` is NULL");
    if (!events)
        return relock_lock_refuse(lock, "an asynchronous call: `events` is NULL");
    if (events->client != lock->client)
        return relock_lock_refuse(lock, "an asynchronous call: `events` belongs to another client");
    return lock->resource->kind->is_composite ? RELOCK_E_UNSUPPORTED : RELOCK_OK;
}

void *relock_async_alloc(size_t size)
{
    struct relock_thread_state thread;
    void *new;

    relock_thread_enter(&thread);
    new = calloc(1, size);
    relock_thread_restore(&thread);
    return new;
}

int relock_async_begin(struct relock_async *call, const struct relock_async_ops *ops,
                       const struct relock_lock *lock, struct relock_events *events)
{
    struct relock_client *client = lock->client;
    struct relock_guard guard;

    if (!relock_client_enter(client, false, &guard)) {
        free(call);
        return guard.result;
    }
    call->step = (struct relock_step){.client = client, .task.run = run};
    call->event = (struct relock_event){.deliver = deliver, .drop = drop, .lose_queue = lose_queue};
    call->command.client = client;
    call->command.ops = &command_ops;
    relock_async_command_init(&call->command);
    relock_timer_init(&call->timer, fire);
    call->ops = ops;
    call->events = events;
    call->lock = *lock;
    call->refs = 1;
    lock->resource->refs++;
    client->guarded.n_calls++;
    relock_events_expect(events, &call->event);
    relock_step_post(&call->step);
    relock_client_exit(client, &guard);
    return RELOCK_OK;
}
