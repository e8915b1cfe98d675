#include "lock/state/client.h"

#include "base/clock.h"
#include "base/fork.h"
#include "redis/server/loop.h"

#include <stdlib.h>

/* After so many, timers and connections are next. */
#define TASKS_AT_A_TIME 64

/* ---- life ---------------------------------------------------------------------------------- */

struct relock_client *relock_client_alloc(void)
{
    struct relock_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->generation = relock_fork_generation();
    atomic_init(&client->n_pins, 0);
    atomic_init(&client->has_fired, false);
    atomic_init(&client->hooks, NULL);
    relock_mutex_init(&client->mutex);
    relock_cond_init(&client->changed);
    relock_cond_init(&client->has_to_tell);
    client->guarded.refs = 1;
    client->guarded.state = RELOCK_CLIENT_OPEN;
    client->guarded.iteration_at_ms = RELOCK_NEVER;
    return client;
}

void relock_client_unref(struct relock_client *client)
{
    struct relock_client_hook *hook;
    bool is_last;

    if (client->generation != relock_fork_generation())
        return;
    relock_mutex_lock(&client->mutex);
    is_last = --client->guarded.refs == 0;
    relock_mutex_unlock(&client->mutex);
    if (!is_last)
        return;
    while ((hook = atomic_load(&client->hooks))) {
        atomic_store(&client->hooks, hook->next);
        free(hook);
    }
    relock_cond_deinit(&client->has_to_tell);
    relock_cond_deinit(&client->changed);
    relock_mutex_deinit(&client->mutex);
    relock_pool_deinit(&client->guarded.holds);
    free((char *)client->options.name_prefix);
    free(client);
}

/* ---- layers above -------------------------------------------------------------------------- */

struct relock_client_hook *relock_client_attach(struct relock_client *client,
                                                const struct relock_client_hook_ops *ops,
                                                size_t size)
{
    struct relock_client_hook *new = calloc(1, size);

    if (!new)
        return NULL;
    new->ops = ops;
    new->next = atomic_load(&client->hooks);
    atomic_store(&client->hooks, new);
    return new;
}

struct relock_client_hook *relock_client_hook_of(const struct relock_client *client,
                                                 const struct relock_client_hook_ops *ops)
{
    struct relock_client_hook *hook = atomic_load(&client->hooks);

    while (hook && hook->ops != ops)
        hook = hook->next;
    return hook;
}

void relock_client_reap(struct relock_client *client)
{
    const struct relock_client_hook *hook;

    RELOCK_HOOKS_FOREACH(client, hook, reap)
    {
        hook->ops->reap();
    }
}

/* ---- calls --------------------------------------------------------------------------------- */

static bool refuse(struct relock_guard *guard, int result)
{
    guard->result = result;
    return false;
}

bool relock_client_enter(struct relock_client *client, bool blocks, struct relock_guard *guard)
{
    if (client->generation != relock_fork_generation())
        return refuse(guard, RELOCK_E_FORKED); /* the mutex may be locked for ever */
    if (blocks && relock_callback_is_inside())
        return refuse(guard, RELOCK_E_DEADLOCK);

    guard->result = RELOCK_OK;
    relock_thread_enter(&guard->thread);
    relock_mutex_lock(&client->mutex);
    if (client->guarded.state != RELOCK_CLIENT_FREED) {
        client->guarded.n_calls++;
        return true;
    }
    relock_mutex_unlock(&client->mutex);
    relock_thread_restore(&guard->thread);
    return refuse(guard, RELOCK_E_CLOSED);
}

void relock_client_end_call(struct relock_client *client)
{
    if (--client->guarded.n_calls == 0 && client->guarded.state == RELOCK_CLIENT_FREED)
        relock_cond_broadcast(&client->changed);
}

void relock_client_exit(struct relock_client *client, const struct relock_guard *guard)
{
    relock_client_end_call(client);
    relock_mutex_unlock(&client->mutex);
    relock_thread_restore(&guard->thread);
}

/* ---- the I/O thread ------------------------------------------------------------------------ */

void relock_client_wake(struct relock_client *client)
{
    if (client->guarded.iteration_at_ms == 0)
        return;
    client->guarded.iteration_at_ms = 0;
    relock_loop_wake(client->loop);
}

void relock_client_post(struct relock_client *client, struct relock_task *task)
{
    if (task->prev)
        return;
    relock_task_add(&client->guarded.tasks, task);
    relock_client_wake(client);
}

void relock_client_take_back(struct relock_client *client, struct relock_task *task)
{
    if (task->prev)
        relock_task_remove(&client->guarded.tasks, task);
}

void relock_client_run_tasks(struct relock_client *client)
{
    struct relock_task *task;

    for (unsigned n = 0; (task = client->guarded.tasks) && n < TASKS_AT_A_TIME; n++) {
        relock_client_take_back(client, task);
        task->run(client, task);
    }
}

static void fire_alarm(struct relock_timer *timer, uint64_t now_ms)
{
    (void)timer;
    (void)now_ms;
}

void relock_client_wake_for(struct relock_client *client, uint64_t due_ms)
{
    client->guarded.alarm.fire = fire_alarm;
    relock_timer_set(&client->guarded.timers, &client->guarded.alarm, due_ms);
    relock_client_wake(client);
}
