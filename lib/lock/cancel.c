#include "lock/cancel.h"

#include "base/fork.h"
#include "base/hash.h"
#include "lock/task.h"

#include <errno.h>
#include <stdlib.h>

int relock_cancel_new(struct relock_cancel **cancel)
{
    struct relock_cancel *new;
    int saved_errno = errno;

    if (!cancel)
        return RELOCK_E_INVALID;
    new = calloc(1, sizeof(*new));
    /* volatile: compilers assume that calloc leaves errno alone, and would drop the assignment. */
    *(volatile int *)&errno = saved_errno;
    if (!new)
        return RELOCK_E_NOMEM;
    atomic_init(&new->fired, false);
    new->guarded.generation = relock_fork_generation();
    *cancel = new;
    return RELOCK_OK;
}

/* In a forked child the waiting threads do not exist. */
static void forget_parents_waits(struct relock_cancel *cancel)
{
    unsigned generation = relock_fork_generation();

    if (cancel->guarded.generation == generation)
        return;
    cancel->guarded.waits = NULL;
    cancel->guarded.generation = generation;
}

void relock_cancel_fire(struct relock_cancel *cancel)
{
    struct relock_cancel_wait *at;

    if (!cancel)
        return;
    relock_mutex_lock(&relock_process_mutex);
    forget_parents_waits(cancel);
    atomic_store(&cancel->fired, true);
    DL_FOREACH(cancel->guarded.waits, at)
    {
        if (at->task)
            relock_task_fire(at->task);
        else
            relock_gate_open(at->gate);
    }
    relock_mutex_unlock(&relock_process_mutex);
}

struct relock_cancel *relock_cancel_free(struct relock_cancel *cancel)
{
    free(cancel);
    return NULL;
}

static void watch(struct relock_cancel_wait *wait, struct relock_cancel *cancel)
{
    wait->cancel = cancel;
    relock_mutex_lock(&relock_process_mutex);
    forget_parents_waits(cancel);
    DL_APPEND(cancel->guarded.waits, wait);
    relock_mutex_unlock(&relock_process_mutex);
}

void relock_cancel_watch(struct relock_cancel_wait *wait, struct relock_cancel *cancel,
                         struct relock_gate *gate)
{
    wait->gate = gate;
    wait->task = NULL;
    watch(wait, cancel);
}

void relock_cancel_watch_for(struct relock_cancel_wait *wait, struct relock_cancel *cancel,
                             struct relock_task *task)
{
    wait->gate = NULL;
    wait->task = task;
    watch(wait, cancel);
}

void relock_cancel_unwatch(struct relock_cancel_wait *wait)
{
    relock_mutex_lock(&relock_process_mutex);
    DL_DELETE(wait->cancel->guarded.waits, wait);
    if (wait->task)
        relock_task_unfire(wait->task);
    relock_mutex_unlock(&relock_process_mutex);
}
