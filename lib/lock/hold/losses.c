#include "lock/hold/holds.h"
#include "lock/hold/private.h"

#include "base/clock.h"
#include "lock/state/events.h"
#include "lock/state/observer.h"
#include "lock/state/step.h"

#include <stdlib.h>

/* An on_lost that runs on this thread. */
struct telling {
    const struct relock_hold *hold;
    const struct telling *outer; /* it was dispatched by this one; or NULL */
};

/* The innermost. */
static _Thread_local const struct telling *telling;

static const char *describe(int reason)
{
    switch (reason) {
    case RELOCK_LOST_EXPIRED:
        return "its lease expired (Redis unreachable, process paused, or a fixed lease ended)";
    case RELOCK_LOST_GONE:
        return "Redis no longer has it (deleted, forced or data lost)";
    case RELOCK_LOST_TAKEN:
        return "another owner holds it, or another program has replaced its key";
    case RELOCK_LOST_CAPPED:
        return "its lease expired after max_hold_ms";
    case RELOCK_LOST_REPLICAS:
        return "fewer than min_replicas replicas acknowledged its renewals for a whole lease, so a "
               "failover could lose it; check the replicas and their lag";
    default:
        return "unknown reason";
    }
}

static void log_loss(const struct relock_client *client, const struct relock_resource *lost,
                     uint64_t owner, int reason)
{
    struct relock_subject subject = {relock_resource_given(lost), owner, RELOCK_LOST};
    char name[RELOCK_LOG_NAME_MAX];

    relock_log_about(
        &client->log, (struct relock_cause){"lost", reason}, &subject,
        "%s: owner %llu lost the lock: %s; its calls on the lock return RELOCK_LOST until "
        "every level is released",
        relock_log_name(lost->name, name), (unsigned long long)owner, describe(reason));
}

/* The lock that the report names. */
static const struct relock_resource *lost_on(const struct relock_hold *hold)
{
    const struct relock_resource *of_collection = relock_hold_lost_on(hold);

    return of_collection ? of_collection : hold->resource;
}

/* Has the other thread, or the program, call on_lost. The reference goes with it. */
static void pass_to_teller(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_events *events = relock_hold_events(hold);

    if (events && !events->is_open) {
        relock_holds_unref(client, hold);
        return;
    }
    hold->notice = RELOCK_HOLD_TO_TELL;
    if (events) {
        relock_events_add_loss(events, hold);
        return;
    }
    relock_task_add(&client->guarded.to_tell, &hold->loss);
    relock_cond_signal(&client->has_to_tell);
}

void relock_losses_take_up(struct relock_client *client, struct relock_task *loss)
{
    struct relock_hold *hold = relock_hold_of_loss(loss);
    bool is_told = hold->told && hold->told->on_lost &&
                   !(hold->observer_tells && relock_observer_awaits_loss(hold));

    hold->notice = RELOCK_HOLD_NO_NOTICE;
    relock_owner_command_release_lost(client, hold);
    if (!hold->detached) {
        uint64_t owner = hold->owner;
        int reason = (int)hold->lost_reason;

        relock_mutex_unlock(&client->mutex);
        log_loss(client, lost_on(hold), owner, reason);
        relock_mutex_lock(&client->mutex);
    }
    relock_observer_tell_lost(client, hold);
    if (hold->detached && hold->state == RELOCK_HOLD_LOST)
        relock_let_go(client, hold, relock_clock_now_ms());
    if (is_told && hold->count > 0)
        pass_to_teller(client, hold);
    else
        relock_holds_unref(client, hold);
}

/* ---- the thread of the callbacks ----------------------------------------------------------- */

void relock_losses_tell(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_lost what = {
        .name = relock_resource_given(lost_on(hold)),
        .owner = hold->owner,
        .reason = (int)hold->lost_reason,
        .hold_count = hold->count,
    };
    const struct relock_told *told = hold->told; /* a reference to the hold keeps it */
    struct telling running = {hold, telling};

    hold->notice = RELOCK_HOLD_TELLING;
    telling = &running;
    relock_mutex_unlock(&client->mutex);
    told->on_lost(&what, told->arg);
    relock_mutex_lock(&client->mutex);
    telling = running.outer;
    hold->notice = RELOCK_HOLD_NO_NOTICE;
    relock_cond_broadcast(&client->changed);
    relock_step_pass(hold);
    relock_holds_unref(client, hold);
    if (client->guarded.state != RELOCK_CLIENT_FREED)
        relock_client_wake(client); /* to reap objects that ended with the hold */
}

static void *run(void *arg)
{
    struct relock_client *client = arg;
    struct relock_task *loss;

    relock_callback_enter();
    relock_mutex_lock(&client->mutex);
    while (client->guarded.has_teller) {
        if (!client->guarded.to_tell) {
            (void)relock_cond_wait_until(&client->has_to_tell, &client->mutex, RELOCK_NEVER);
            continue;
        }
        loss = client->guarded.to_tell;
        relock_task_remove(&client->guarded.to_tell, loss);
        relock_losses_tell(client, relock_hold_of_loss(loss));
    }
    relock_mutex_unlock(&client->mutex);
    return NULL;
}

int relock_losses_start(struct relock_client *client)
{
    int r;

    relock_mutex_lock(&client->mutex);
    r = relock_thread_start(&client->guarded.teller, "relock:lost", run, client);
    client->guarded.has_teller = r == RELOCK_OK;
    relock_mutex_unlock(&client->mutex);
    return r;
}

void relock_losses_stop(struct relock_client *client)
{
    bool has_teller;
    pthread_t teller;

    relock_mutex_lock(&client->mutex);
    has_teller = client->guarded.has_teller;
    teller = client->guarded.teller;
    client->guarded.has_teller = false;
    relock_cond_signal(&client->has_to_tell);
    relock_mutex_unlock(&client->mutex);
    if (has_teller)
        (void)pthread_join(teller, NULL);
}

/* ---- the last release waits ---------------------------------------------------------------- */

static bool is_telling(const struct relock_hold *hold)
{
    const struct telling *at = telling;

    while (at && at->hold != hold)
        at = at->outer;
    return at != NULL;
}

bool relock_losses_block(const struct relock_hold *hold)
{
    return relock_callback_is_inside() && hold->notice == RELOCK_HOLD_TELLING && !is_telling(hold);
}

void relock_losses_wait(struct relock_client *client, struct relock_hold *hold)
{
    if (is_telling(hold))
        return;
    while (hold->notice == RELOCK_HOLD_TELLING)
        (void)relock_cond_wait_until(&client->changed, &client->mutex, RELOCK_NEVER);
}
