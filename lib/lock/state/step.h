/*
 * Step - the next step of an asynchronous call, for the I/O thread to run
 *
 * An event that would wake a blocking call posts the step of an asynchronous one. The I/O thread
 * runs it in its next iteration, as a task (task.h).
 *
 * A cancel fires without the mutex of the client, so the steps that it posts have a list of their
 * own.
 *
 * Threads: with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_STEP_H
#define RELOCK_STEP_H

#include "base/fork.h"
#include "lock/state/client.h"
#include "lock/state/hold.h"
#include "lock/state/task.h"

#include <stdbool.h>

struct relock_step {
    struct relock_client *client; /* constant */
    struct relock_task task;

    struct relock_hold *ahead; /* it waits for this hold, to which its user has a reference */
    struct relock_step *follow_next, *follow_prev;

    /* guarded by the process mutex */
    bool is_fired;
    struct relock_step *fired_next, *fired_prev;
};

void relock_step_post(struct relock_step *step);

/* A cancel has fired: has the I/O thread post the step. With the process mutex held; any thread. */
void relock_step_fire(struct relock_step *step) RELOCK_REQUIRES(relock_process_mutex);
void relock_step_unfire(struct relock_step *step) RELOCK_REQUIRES(relock_process_mutex);

/*
 * Another command about the hold runs, or its on_lost, or its deferred release has not ended: the
 * step waits until it is over. Such steps are posted one at a time: the one that runs calls
 * relock_step_pass() for the next.
 */
void relock_step_follow(struct relock_step *step, struct relock_hold *hold);
void relock_step_unfollow(struct relock_step *step);
bool relock_step_is_followed(const struct relock_hold *hold);
static inline bool relock_step_is_blocked(const struct relock_hold *hold)
{
    return hold->busy || hold->is_deferred || hold->notice == RELOCK_HOLD_TELLING ||
           (hold->state == RELOCK_HOLD_CACHED && relock_hold_is_in_use(hold));
}

/* Posts the first step that waits for the hold, unless the hold still blocks it. A later step waits
 * behind these, even if the hold is free. */
void relock_step_pass(const struct relock_hold *hold);

/* The client is shut down: posts the steps that wait for a deferred release. */
void relock_step_stop(const struct relock_hold *hold);

/* The I/O thread: posts the steps for which cancels have fired. */
void relock_step_post_fired(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
