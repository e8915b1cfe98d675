#include "lock/state/cancel.h"

#include "base/fork.h"
#include "base/hash.h"
#include "lock/state/step.h"

#include <stdlib.h>

int relock_cancel_new(struct relock_cancel **cancel)
{
    struct relock_thread_state thread;
    struct relock_cancel *new;

    if (!cancel)
        return RELOCK_E_INVALID;
    relock_thread_enter(&thread);
    new = calloc(1, sizeof(*new));
    relock_thread_restore(&thread);
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
        if (at->step)
            relock_step_fire(at->step);
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

void relock_cancel_watch(struct relock_cancel_wait *wait, struct relock_cancel *cancel,
                         struct relock_gate *gate, struct relock_step *step)
{
    wait->cancel = cancel;
    wait->gate = gate;
    wait->step = step;
    relock_mutex_lock(&relock_process_mutex);
    forget_parents_waits(cancel);
    DL_APPEND(cancel->guarded.waits, wait);
    relock_mutex_unlock(&relock_process_mutex);
}

void relock_cancel_unwatch(struct relock_cancel_wait *wait)
{
    relock_mutex_lock(&relock_process_mutex);
    DL_DELETE(wait->cancel->guarded.waits, wait);
    if (wait->step)
        relock_step_unfire(wait->step);
    relock_mutex_unlock(&relock_process_mutex);
}
