/*
 * Cancel - ends waits from outside
 *
 * Cancels are fired seldom and belong to no client, so the process mutex guards them all. That
 * also makes a copy in a forked child whole, and rids it of the waits of threads that it lacks.
 *
 * Threads: any. The process mutex may be taken under that of a client, never the other way.
 */
#ifndef RELOCK_CANCEL_H
#define RELOCK_CANCEL_H

#include "base/gate.h"

#include <relock.h>

struct relock_cancel_wait {
    struct relock_cancel *cancel; /* NULL when the wait cannot be cancelled */
    struct relock_gate *gate;
    struct relock_cancel_wait *next, *prev; /* guarded by the process mutex */
};

/* From here on firing `cancel`, which may be NULL, opens the gate. */
void relock_cancel_watch(struct relock_cancel_wait *wait, struct relock_cancel *cancel,
                         struct relock_gate *gate);

/* Afterwards the gate is not touched any more. */
void relock_cancel_unwatch(struct relock_cancel_wait *wait);

/* Takes NULL, which is never fired. Under any mutex. */
bool relock_cancel_is_fired(const struct relock_cancel *cancel);

#endif
