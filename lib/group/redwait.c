#include "group/redwait.h"

#include "base/clock.h"
#include "group/listeners.h"
#include "lock/wake/line.h"
#include "lock/wake/subscription.h"

static void set_listening(struct relock_acquire *acquire, bool listens)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    if (acquire->keeps_channels == listens)
        return;
    acquire->keeps_channels = listens;
    relock_mutex_unlock(&acquire->client->mutex);
    relock_group_listen(relock_group_of(acquire->resource), listens);
    relock_mutex_lock(&acquire->client->mutex);
}

/* ---- the line ------------------------------------------------------------------------------ */

static void leave_line(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_group *group = relock_group_of(acquire->resource);
    const struct relock_lock *member = group->members[RELOCK_SEQUENCER];
    struct relock_guard guard;

    if (!acquire->stands)
        return;
    acquire->stands = false;
    relock_mutex_unlock(&acquire->client->mutex);
    if (relock_client_enter(member->client, false, &guard)) {
        group->listeners[RELOCK_SEQUENCER].base.n_standing--;
        relock_line_abandon(member->client, member->resource);
        relock_subscription_idle(member->client, member->resource); /* if it stood outside */
        relock_client_leave(member->client, &guard);
    }
    relock_mutex_lock(&acquire->client->mutex);
}

/* The next waiter of this process starts at the end of the line. */
static void end_wait(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_group *group = relock_group_of(acquire->resource);

    relock_group_is_under(group, acquire->client);
    acquire->stop_listening = NULL;
    group->order.standing = RELOCK_STANDING_OUTSIDE;
    group->order.is_told = false;
    set_listening(acquire, false);
    leave_line(acquire);
}

static void set_asking(const struct relock_acquire *acquire, bool is_asking)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_group *group = relock_group_of(acquire->resource);

    relock_group_is_under(group, acquire->client);
    group->order.is_asking = is_asking;
}

void relock_redwait_begin(struct relock_acquire *acquire)
{
    acquire->stop_listening = end_wait;
    set_asking(acquire, true);
}

void relock_redwait_end(const struct relock_acquire *acquire)
{
    set_asking(acquire, false);
}

void relock_redwait_granted(const struct relock_acquire *acquire)
{
    struct relock_group *group = relock_group_of(acquire->resource);

    relock_group_is_under(group, acquire->client);
    group->order.is_bypassed = false;
    group->order.pause_ms = 0;
}

/* ---- refused ------------------------------------------------------------------------------- */

enum relock_standing relock_redwait_standing(const struct relock_tally *tally)
{
    if (!tally->guarded.votes[RELOCK_SEQUENCER].no ||
        tally->guarded.votes[RELOCK_SEQUENCER].place == 0)
        return RELOCK_STANDING_OUTSIDE;
    return tally->guarded.is_barred || !tally->guarded.votes[RELOCK_SEQUENCER].is_listening
               ? RELOCK_STANDING_IN_LINE
               : RELOCK_STANDING_FIRST;
}

/* Whether the vote of the sequencer would not be enough. */
static bool is_refused_by_others(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex)
{
    unsigned n_no = relock_tally_n_no(tally) - tally->guarded.votes[RELOCK_SEQUENCER].no;

    return n_no >= relock_tally_quorum(tally);
}

/* If only the sequencer is in the way, the client has to join its line: it has not followed the
 * messages of the sequencer. */
static void see_bypass(struct relock_acquire *acquire, const struct relock_tally *tally)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    struct relock_group *group = tally->group;
    bool was_bypassed, is_outside;

    relock_tally_is_under(tally, acquire->client);
    was_bypassed = group->order.is_bypassed;
    is_outside = relock_redwait_standing(tally) == RELOCK_STANDING_OUTSIDE;
    if (group->order.pause_ms == 0)
        group->order.pause_ms = RELOCK_FIRST_PAUSE_MS;
    if (is_outside && tally->guarded.is_barred)
        return; /* the others were not asked; it asks again when the reservation is over */
    group->order.is_bypassed =
        is_refused_by_others(tally) &&
        (tally->guarded.votes[RELOCK_SEQUENCER].yes || (was_bypassed && is_outside));
    if (was_bypassed && !group->order.is_bypassed)
        relock_resource_signal(acquire->resource, false);
}

void relock_redwait_refused(struct relock_acquire *acquire, const struct relock_tally *tally)
{
    struct relock_group *group = tally->group;
    bool is_new;

    relock_tally_is_under(tally, acquire->client);
    group->order.is_contended = true;
    see_bypass(acquire, tally);
    group->order.standing = relock_redwait_standing(tally);
    is_new = group->order.standing == RELOCK_STANDING_FIRST && !acquire->keeps_channels;
    set_listening(acquire, group->order.standing != RELOCK_STANDING_IN_LINE);
    if (is_new) {
        acquire->resource->yields_until_ms = relock_clock_in(RELOCK_FIRST_PAUSE_MS);
        relock_resource_signal(acquire->resource, false);
    }
}
