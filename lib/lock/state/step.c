#include "lock/state/step.h"

#include "base/hash.h"
#include "lock/state/resource.h"
#include "redis/server/loop.h"

/* Unchecked: the callers hold the mutex of the step's client. */
RELOCK_UNCHECKED void relock_step_post(struct relock_step *step)
{
    relock_client_post(step->client, &step->task);
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

void relock_step_post_fired(struct relock_client *client)
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

/* Few steps follow a hold, and few holds are followed, so holds have no lists of their own.
 * Unchecked: the callers hold the mutex of the hold's client. */
RELOCK_UNCHECKED static struct relock_step **list_of(const struct relock_hold *hold)
{
    return &hold->resource->client->guarded.followers[hold->number % RELOCK_FOLLOWER_PARTS];
}

void relock_step_follow(struct relock_step *step, struct relock_hold *hold)
{
    step->ahead = hold;
    DL_APPEND2(*list_of(hold), step, follow_prev, follow_next);
}

void relock_step_unfollow(struct relock_step *step)
{
    if (!step->ahead)
        return;
    DL_DELETE2(*list_of(step->ahead), step, follow_prev, follow_next);
    step->ahead = NULL;
}

/* From `at` on. */
static struct relock_step *next_follower(const struct relock_hold *hold, struct relock_step *at)
{
    while (at && at->ahead != hold)
        at = at->follow_next;
    return at;
}

bool relock_step_is_followed(const struct relock_hold *hold)
{
    return next_follower(hold, *list_of(hold)) != NULL;
}

void relock_step_pass(const struct relock_hold *hold)
{
    struct relock_step *first = next_follower(hold, *list_of(hold));

    if (first && !relock_step_is_blocked(hold))
        relock_step_post(first);
}

void relock_step_stop(const struct relock_hold *hold)
{
    struct relock_step *at;

    if (!hold->is_deferred)
        return;
    for (at = next_follower(hold, *list_of(hold)); at; at = next_follower(hold, at->follow_next))
        relock_step_post(at);
}
