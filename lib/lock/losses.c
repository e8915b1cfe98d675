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

static void tell(const struct relock_client *client, const struct relock_lost *what,
                 relock_lost_fn *on_lost, void *arg)
{
    char name[RELOCK_LOG_NAME_MAX];

    relock_log_cause(&client->log, (struct relock_cause){"lost", what->reason}, RELOCK_LOG_WARNING,
                     "%s: owner %llu lost the lock: %s", relock_log_name(what->name, name),
                     (unsigned long long)what->owner, relock_losses_reason(what->reason));
    if (!on_lost)
        return;
    relock_callback_enter();
    on_lost(what, arg);
    relock_callback_leave();
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

void relock_losses_tell_next(struct relock_client *client)
{
    struct relock_hold *hold = client->guarded.losses;
    struct relock_lost what;
    relock_lost_fn *on_lost;
    void *arg;

    if (!hold)
        return;
    what = (struct relock_lost){
        .name = name_of(hold),
        .owner = hold->owner,
        .reason = hold->lost_reason,
        .hold_count = hold->count,
    };
    on_lost = hold->of_whole && hold->parts ? NULL : hold->on_lost; /* the whole tells */
    arg = hold->arg;
    DL_DELETE2(client->guarded.losses, hold, loss_prev, loss_next);
    hold->to_be_told = false;
    hold->telling = true;
    client->guarded.teller = pthread_self();
    if (!hold->busy)                         /* else whoever is at it does so */
        relock_redlock_let_go(client, hold); /* which nothing renews any more */
    relock_mutex_unlock(&client->mutex);
    if (!hold->vote)
        tell(client, &what, on_lost, arg);
    relock_mutex_lock(&client->mutex);
    if (hold->vote)
        relock_vote_tell(client, hold);
    tell_wholes(client, hold);
    hold->telling = false;
    relock_cond_broadcast(&client->changed);
    relock_holds_unref(client, hold);
}

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
