/*
 * Cancel - a handle with which any thread ends the waits of others
 *
 * A cancel belongs to no client and is rarely fired, so the process mutex guards all of them. As
 * fork() waits for that mutex, the copy in a child is consistent; the child drops the waits of its
 * parent's threads.
 *
 * Threads: any. The process mutex may be locked under that of a client, never the other way round.
 */
#ifndef RELOCK_CANCEL_H
#define RELOCK_CANCEL_H

#include "base/thread.h"

#include <relock.h>
#include <stdatomic.h>
#include <stdbool.h>

struct relock_step;

struct relock_cancel_wait {
    struct relock_cancel *cancel;
    struct relock_gate *gate;               /* of the thread that waits */
    struct relock_step *step;               /* instead of it; or NULL */
    struct relock_cancel_wait *next, *prev; /* guarded by the process mutex */
};

struct relock_cancel {
    atomic_bool fired;
    struct {
        struct relock_cancel_wait *waits;
        unsigned generation; /* of the process that these waits belong to */
    } guarded;               /* by the process mutex */
};

/* From now on firing `cancel` makes `step` due, that of an asynchronous call. If `step` is NULL, it
 * opens `gate`. */
void relock_cancel_watch(struct relock_cancel_wait *wait, struct relock_cancel *cancel,
                         struct relock_gate *gate, struct relock_step *step);

/* From now on firing it leaves the gate, or the step, alone. */
void relock_cancel_unwatch(struct relock_cancel_wait *wait);

/* Takes NULL, which is never fired. Under any mutex. */
static inline bool relock_cancel_is_fired(const struct relock_cancel *cancel)
{
    return cancel && atomic_load(&cancel->fired);
}

#endif
