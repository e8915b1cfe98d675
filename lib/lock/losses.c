#include "lock/losses.h"

#include "base/callback.h"
#include "base/clock.h"
#include "lock/holds.h"
#include "lock/redlock.h"
#include "lock/vote.h"

#include <stdlib.h>

const char *relock_losses_reason(int reason)
{
    switch (reason) {
    case RELOCK_LOST_EXPIRED:
        return "its lease ran out";
    case RELOCK_LOST_GONE:
        return "Redis does not have it any more";
    case RELOCK_LOST_TAKEN:
        return "another owner has it";
    case RELOCK_LOST_CAPPED:
        return "max_hold_ms was reached";
    default:
        return "unknown reason";
    }
}

static void log_loss(const struct relock_client *client, const char *lock_name, uint64_t owner,
                     int reason)
{
    char name[RELOCK_LOG_NAME_MAX];

    relock_log_cause(&client->log, (struct relock_cause){"lost", reason}, RELOCK_LOG_WARNING,
                     "%s: owner %llu lost the lock: %s", relock_log_name(lock_name, name),
                     (unsigned long long)owner, relock_losses_reason(reason));
}

/* The multi locks that it is part of are lost with it. Gives the mutex up meanwhile. */
static void tell_wholes(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_part *part;

    while ((part = hold->parts)) {
        int reason = hold->lost_reason;

        DL_DELETE(hold->parts, part);
        relock_mutex_unlock(&client->mutex);
        (void)relock_group_lose(part->group, part->whole, part->member, reason);
        relock_group_unref(part->group);
        free(part);
        relock_mutex_lock(&client->mutex);
    }
}

static const char *name_of(const struct relock_hold *hold)
{
    const struct relock_group *group = hold->site->group;

    return group && group->kind->calls ? group->members[hold->lost_member]->site->name
                                       : hold->site->name;
}

/* Has the other thread call on_lost. The reference goes with it. */
static void pass_to_teller(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    hold->to_be_told = true;
    DL_APPEND2(client->guarded.to_tell, hold, loss_prev, loss_next);
    relock_cond_signal(&client->has_to_tell);
}

void relock_losses_take_up_next(struct relock_client *client)
{
    struct relock_hold *hold = client->guarded.losses;
    bool is_told;

    if (!hold)
        return;
    /* Of a member's loss the whole tells. */
    is_told = !hold->vote && hold->on_lost && !(hold->of_whole && hold->parts);
    DL_DELETE2(client->guarded.losses, hold, loss_prev, loss_next);
    hold->to_be_taken_up = false;
    if (!hold->busy)                         /* else whoever is at it does so */
        relock_redlock_let_go(client, hold); /* which nothing renews any more */
    if (hold->vote) {
        relock_vote_tell(client, hold);
    } else {
        uint64_t owner = hold->owner;
        int reason = hold->lost_reason;

        relock_mutex_unlock(&client->mutex);
        log_loss(client, name_of(hold), owner, reason);
        relock_mutex_lock(&client->mutex);
    }
    tell_wholes(client, hold);
    if (is_told && hold->count > 0)
        pass_to_teller(client, hold);
    else
        relock_holds_unref(client, hold);
}

void relock_losses_forget(struct relock_client *client, struct relock_hold *hold)
{
    if (hold->to_be_taken_up)
        DL_DELETE2(client->guarded.losses, hold, loss_prev, loss_next);
    else if (hold->to_be_told)
        DL_DELETE2(client->guarded.to_tell, hold, loss_prev, loss_next);
    else
        return;
    hold->to_be_taken_up = false;
    hold->to_be_told = false;
    relock_holds_unref(client, hold);
}

/* ---- the thread of the callbacks ----------------------------------------------------------- */

static void tell(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_lost what = {
        .name = name_of(hold),
        .owner = hold->owner,
        .reason = hold->lost_reason,
        .hold_count = hold->count,
    };
    relock_lost_fn *on_lost = hold->on_lost;
    void *arg = hold->arg;

    DL_DELETE2(client->guarded.to_tell, hold, loss_prev, loss_next);
    hold->to_be_told = false;
    hold->telling = true;
    relock_mutex_unlock(&client->mutex);
    on_lost(&what, arg);
    relock_mutex_lock(&client->mutex);
    hold->telling = false;
    relock_cond_broadcast(&client->changed);
    relock_holds_unref(client, hold);
}

RELOCK_UNCHECKED static void *run(void *arg)
{
    struct relock_client *client = arg;

    relock_callback_enter();
    relock_mutex_lock(&client->mutex);
    while (client->guarded.has_teller) {
        if (!client->guarded.to_tell) {
            (void)relock_cond_wait_until(&client->has_to_tell, &client->mutex, RELOCK_NEVER);
            continue;
        }
        tell(client, client->guarded.to_tell);
        relock_mutex_unlock(&client->mutex);
        relock_group_bury();
        relock_mutex_lock(&client->mutex);
    }
    relock_mutex_unlock(&client->mutex);
    return NULL;
}

RELOCK_UNCHECKED int relock_losses_start(struct relock_client *client)
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

/* ---- whoever gives up the last level ------------------------------------------------------- */

static bool is_telling(const struct relock_client *client, const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    return hold->telling && pthread_equal(client->guarded.teller, pthread_self());
}

bool relock_losses_block(const struct relock_client *client, const struct relock_hold *hold)
{
    return relock_callback_is_inside() && hold->telling && !is_telling(client, hold);
}

void relock_losses_wait(struct relock_client *client, struct relock_hold *hold)
{
    if (is_telling(client, hold))
        return;
    while (hold->telling)
        (void)relock_cond_wait_until(&client->changed, &client->mutex, RELOCK_NEVER);
}
