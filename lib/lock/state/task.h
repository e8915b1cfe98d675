/*
 * Task - a step of an asynchronous call, for the I/O thread to run
 *
 * An event that would wake a blocking call posts the task of an asynchronous one. The I/O thread
 * runs it in its next turn. A task that is posted twice runs once. Posting carries no data: like a
 * thread that wakes up, the task looks at the state of that moment.
 *
 * A cancel fires without the mutex of the client, so the tasks that it posts have a list of their
 * own.
 *
 * Threads: with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_TASK_H
#define RELOCK_TASK_H

#include "base/fork.h"
#include "lock/state/client.h"
#include "lock/state/hold.h"

struct relock_task {
    struct relock_client *client;          /* constant */
    void (*run)(struct relock_task *task); /* constant; may unlock the mutex meanwhile */

    bool is_posted;
    struct relock_task *next, *prev; /* of the client: those to run */

    struct relock_hold *ahead; /* it waits for this hold, to which its user has a reference */
    struct relock_task *follow_next, *follow_prev;

    /* guarded by the process mutex */
    bool is_fired;
    struct relock_task *fired_next, *fired_prev;
};

/* Has the I/O thread run the task in its next turn. */
void relock_task_post(struct relock_task *task);

/* Undoes the post; does nothing if the task is not posted. */
void relock_task_take_back(struct relock_task *task);

/* A cancel posts the task, and undoes that: with the process mutex held; from any thread. */
void relock_task_fire(struct relock_task *task) RELOCK_REQUIRES(relock_process_mutex);
void relock_task_unfire(struct relock_task *task) RELOCK_REQUIRES(relock_process_mutex);

/*
 * Another command about the hold runs, or its on_lost: the task waits until both have ended. Such
 * tasks are posted one at a time: the one that runs calls relock_task_pass() for the next.
 */
void relock_task_follow(struct relock_task *task, struct relock_hold *hold);
void relock_task_unfollow(struct relock_task *task);
static inline bool relock_task_is_blocked(const struct relock_hold *hold)
{
    return hold->busy || hold->notice == RELOCK_HOLD_TELLING ||
           (hold->state == RELOCK_HOLD_CACHED && relock_hold_is_in_use(hold));
}

/* Posts the first task that waits for the hold, unless the hold still blocks it. A later task waits
 * behind these, even if the hold is free. */
void relock_task_pass(const struct relock_hold *hold);

/* The I/O thread: runs the tasks that are due, or some of them. */
void relock_task_run_due(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
