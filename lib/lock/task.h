/*
 * Task - something that the I/O thread is to go on with: a call that no thread waits in
 *
 * Where a blocking call would be woken, such a call has a task that is posted. The I/O thread runs
 * it in its next turn. Posting twice is posting once, and carries no data: like a thread that wakes
 * up, the task looks at the state of that moment.
 *
 * A cancel is fired without the mutex of the client, so its tasks are in a list of their own.
 *
 * Threads: with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_TASK_H
#define RELOCK_TASK_H

#include "base/fork.h"
#include "lock/client.h"
#include "lock/hold.h"

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

/* The I/O thread is to run it. */
void relock_task_post(struct relock_task *task);

/* Does nothing if it is not posted. */
void relock_task_take_back(struct relock_task *task);

/* The same for a cancel, with the process mutex held instead; from any thread. */
void relock_task_fire(struct relock_task *task) RELOCK_REQUIRES(relock_process_mutex);
void relock_task_unfire(struct relock_task *task) RELOCK_REQUIRES(relock_process_mutex);

/*
 * Another command about the hold runs, or its on_lost: the task waits until both have ended. Those
 * who wait are posted one at a time, so the one that runs passes on.
 */
void relock_task_follow(struct relock_task *task, struct relock_hold *hold);
void relock_task_unfollow(struct relock_task *task);
static inline bool relock_task_is_blocked(const struct relock_hold *hold)
{
    return hold->busy || hold->notice == RELOCK_HOLD_TELLING;
}

/* Posts the first of those who wait, unless the hold still blocks them. Who comes later follows
 * them, even if the hold is free. */
void relock_task_pass(const struct relock_hold *hold);

/* The I/O thread: runs the tasks that are due, or some of them. */
void relock_task_run_due(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
