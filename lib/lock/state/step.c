#include "lock/state/step.h"

#include "base/hash.h"
#include "redis/server/loop.h"

/* After so many, the connections get their turn. */
#define STEPS_AT_A_TIME 64

/* Unchecked: the callers hold the mutex of the step's client. */
RELOCK_UNCHECKED void relock_step_post(struct relock_step *step)
{
    if (step->is_posted)
        return;
    step->is_posted = true;
    DL_APPEND(step->client->guarded.steps, step);
    relock_client_wake(step->client);
}

void relock_step_take_back(struct relock_step *step)
{
    if (!step->is_posted)
        return;
    step->is_posted = false;
    DL_DELETE(step->client->guarded.steps, step);
}

/* ---- cancels ------------------------------------------------------------------------------- */

void relock_step_fire(struct relock_step *step)
{
    if (step->is_fired)
        return;
    step->is_fired = true;
    DL_APPEND2(step->client->fired, step, fired_prev, fired_next);
    atomic_store(&step->client->has_fired, true);
    relock_loop_wake(step->client->loop);
}

void relock_step_unfire(struct relock_step *step)
{
    if (!step->is_fired)
        return;
    step->is_fired = false;
    DL_DELETE2(step->client->fired, step, fired_prev, fired_next);
}

static void post_fired(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    if (!atomic_exchange(&client->has_fired, false))
        return;
    relock_mutex_lock(&relock_process_mutex);
    while (client->fired) {
        struct relock_step *step = client->fired;

        relock_step_unfire(step);
        relock_step_post(step);
    }
    relock_mutex_unlock(&relock_process_mutex);
}

/* ---- behind a hold ------------------------------------------------------------------------- */

void relock_step_follow(struct relock_step *step, struct relock_hold *hold)
{
    step->ahead = hold;
    DL_APPEND2(hold->followers, step, follow_prev, follow_next);
}

void relock_step_unfollow(struct relock_step *step)
{
    if (!step->ahead)
        return;
    DL_DELETE2(step->ahead->followers, step, follow_prev, follow_next);
    step->ahead = NULL;
}

void relock_step_pass(const struct relock_hold *hold)
{
    if (hold->followers && !relock_step_is_blocked(hold))
        relock_step_post(hold->followers);
}

/* ---- running ------------------------------------------------------------------------------- */

void relock_step_run_due(struct relock_client *client)
{
    struct relock_step *step;

    post_fired(client);
    for (unsigned n = 0; (step = client->guarded.steps) && n < STEPS_AT_A_TIME; n++) {
        relock_step_take_back(step);
        step->run(step);
    }
}
