#include "lock/state/task.h"

#include "base/hash.h"
#include "redis/server/loop.h"

/* After so many, the connections get their turn. */
#define TASKS_AT_A_TIME 64

/* Unchecked: the callers hold the mutex of the task's client. */
RELOCK_UNCHECKED void relock_task_post(struct relock_task *task)
{
    if (task->is_posted)
        return;
    task->is_posted = true;
    DL_APPEND(task->client->guarded.tasks, task);
    relock_client_wake(task->client);
}

void relock_task_take_back(struct relock_task *task)
{
    if (!task->is_posted)
        return;
    task->is_posted = false;
    DL_DELETE(task->client->guarded.tasks, task);
}

/* ---- cancels ------------------------------------------------------------------------------- */

void relock_task_fire(struct relock_task *task)
{
    if (task->is_fired)
        return;
    task->is_fired = true;
    DL_APPEND2(task->client->fired, task, fired_prev, fired_next);
    atomic_store(&task->client->has_fired, true);
    relock_loop_wake(task->client->loop);
}

void relock_task_unfire(struct relock_task *task)
{
    if (!task->is_fired)
        return;
    task->is_fired = false;
    DL_DELETE2(task->client->fired, task, fired_prev, fired_next);
}

static void post_fired(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    if (!atomic_exchange(&client->has_fired, false))
        return;
    relock_mutex_lock(&relock_process_mutex);
    while (client->fired) {
        struct relock_task *task = client->fired;

        relock_task_unfire(task);
        relock_task_post(task);
    }
    relock_mutex_unlock(&relock_process_mutex);
}

/* ---- behind a hold ------------------------------------------------------------------------- */

void relock_task_follow(struct relock_task *task, struct relock_hold *hold)
{
    task->ahead = hold;
    DL_APPEND2(hold->followers, task, follow_prev, follow_next);
}

void relock_task_unfollow(struct relock_task *task)
{
    if (!task->ahead)
        return;
    DL_DELETE2(task->ahead->followers, task, follow_prev, follow_next);
    task->ahead = NULL;
}

void relock_task_pass(const struct relock_hold *hold)
{
    if (hold->followers && !relock_task_is_blocked(hold))
        relock_task_post(hold->followers);
}

/* ---- running ------------------------------------------------------------------------------- */

void relock_task_run_due(struct relock_client *client)
{
    struct relock_task *task;

    post_fired(client);
    for (unsigned n = 0; (task = client->guarded.tasks) && n < TASKS_AT_A_TIME; n++) {
        relock_task_take_back(task);
        task->run(task);
    }
}
