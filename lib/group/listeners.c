/*
 * When a message from a member's channel is worth a retry:
 *
 *      state           asked           answered yes    answered no     message
 *
 *      REFUSED         ASKED           -               -               retry
 *      GRANTED         ASKED           -               -               -
 *      ASKED           -               GRANTED         REFUSED         ASKED_RETRY
 *      ASKED_RETRY     -               GRANTED         REFUSED, retry  -
 *
 * A server that grants its vote was free anyhow. The message may have announced that this lock
 * itself released a vote, and a waiter that retried for that would wake itself for ever. Only the
 * answer to the last question counts. A vote granted late may be why the next one was refused; the
 * message about the release of the first is then worth a retry.
 *
 * Messages count even while no call waits: a waiter that is just being refused does not wait yet.
 * If the channel is still subscribed from before, nothing else tells it of a release in between.
 */
#include "group/private.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/hash.h"
#include "lock/hold/holds.h"
#include "lock/wake/wake.h"

#include <stdlib.h>

/* The longest pause of a waiter that heard a message while the owner has the lock without the
 * sequencer. */
#define PATIENCE_MAX_MS 160

/* ---- messages ------------------------------------------------------------------------------ */

static struct relock_member_listener *listener_of(struct relock_listener *base)
{
    return RELOCK_CONTAINER(struct relock_member_listener, base, base);
}

/* Returns whether the message is worth a retry now. */
static bool take_message(struct relock_member_listener *listener)
{
    switch (listener->state) {
    case RELOCK_MEMBER_REFUSED:
        return true;
    case RELOCK_MEMBER_ASKED:
        listener->state = RELOCK_MEMBER_ASKED_RETRY;
        return false;
    case RELOCK_MEMBER_GRANTED:
    case RELOCK_MEMBER_ASKED_RETRY:
        return false;
    }
    return false;
}

static bool notify(struct relock_listener *base, enum relock_listener_event event)
{
    struct relock_member_listener *listener = listener_of(base);

    if (event == RELOCK_HEARD_MESSAGE && !take_message(listener))
        return false;
    /* A group without references keeps its listeners until it is reaped. */
    return base->due || relock_group_try_ref(listener->group);
}

static void deliver(struct relock_listener *base, unsigned events)
{
    struct relock_group *group = listener_of(base)->group;

    relock_group_hear(group, (size_t)(listener_of(base) - group->listeners), events);
    relock_group_unref(group);
}

/* The events that the head follows, where it stands. */
static unsigned followed(const struct relock_group *group, size_t member, unsigned events)
    RELOCK_REQUIRES(group->coordinator->mutex)
{
    bool is_sequencer = member == RELOCK_SEQUENCER;
    unsigned ignored = 0;

    if (group->order.is_asking)
        return events;
    if (group->order.standing == RELOCK_STANDING_IN_LINE)
        ignored = RELOCK_HEARD_MESSAGE | (is_sequencer ? 0 : RELOCK_HEARD_CHANGE);
    else if (group->order.is_bypassed && is_sequencer)
        ignored = RELOCK_HEARD_MESSAGE; /* another waiter gave up: the owner is not there */
    return events & ~ignored;
}

/* The message may be about the vote of another waiter that gave up: they must not wake each other
 * all the time. */
static void be_patient(struct relock_group *group, uint64_t now_ms)
    RELOCK_REQUIRES(group->coordinator->mutex)
{
    relock_resource_yield_until(group->resource, now_ms + group->order.pause_ms);
    group->order.pause_ms = relock_clock_sooner(2 * group->order.pause_ms, PATIENCE_MAX_MS);
}

static void hear(struct relock_group *group, unsigned events)
    RELOCK_REQUIRES(group->coordinator->mutex)
{
    struct relock_resource *resource = group->resource;
    uint64_t now_ms = relock_clock_now_ms();

    group->order.is_heard = true;
    if (events & RELOCK_HEARD_TURN) {
        group->order.is_told = true;
        relock_resource_yield_until(resource,
                                    events & RELOCK_HEARD_LATER ? now_ms + RELOCK_YIELD_MS : 0);
    } else if (group->order.is_bypassed) {
        be_patient(group, now_ms);
    } else if (group->order.standing == RELOCK_STANDING_FIRST) {
        relock_resource_yield_until(resource, now_ms + RELOCK_FIRST_PAUSE_MS);
    }
    if (events != RELOCK_HEARD_CHANGE)
        group->order.is_bypassed = false;
    relock_resource_signal(resource, events & (RELOCK_HEARD_TURN | RELOCK_HEARD_MESSAGE));
}

void relock_group_hear(struct relock_group *group, size_t member, unsigned events)
{
    relock_mutex_lock(&group->coordinator->mutex);
    events = followed(group, member, events);
    if (group->resource && events)
        hear(group, events);
    relock_mutex_unlock(&group->coordinator->mutex);
}

/* ---- questions ----------------------------------------------------------------------------- */

void relock_group_asked(struct relock_group *group, size_t member, uint64_t number)
{
    struct relock_member_listener *listener = &group->listeners[member];

    listener->asked = number;
    if (listener->state != RELOCK_MEMBER_ASKED_RETRY)
        listener->state = RELOCK_MEMBER_ASKED;
}

bool relock_group_answered(struct relock_group *group, size_t member, uint64_t number,
                           bool is_granted)
{
    struct relock_member_listener *listener = &group->listeners[member];
    bool is_retry = listener->state == RELOCK_MEMBER_ASKED_RETRY && !is_granted;

    if (listener->asked != number)
        return false;
    listener->asked = 0;
    listener->state = is_granted ? RELOCK_MEMBER_GRANTED : RELOCK_MEMBER_REFUSED;
    return is_retry;
}

/* ---- waiting ------------------------------------------------------------------------------- */

void relock_group_listen(struct relock_group *group, bool waits)
{
    for (size_t i = 0; i < group->n; i++) {
        struct relock_lock *member = group->members[i];
        struct relock_guard guard;

        if (!relock_client_enter(member->client, false, &guard))
            continue;
        if (waits) {
            group->listeners[i].base.n_waiting++;
            if (!member->resource->kind->is_queued)
                relock_subscription_want(member->client, member->resource);
            if (i == RELOCK_SEQUENCER && relock_kind_has_line(member->resource->kind))
                (void)relock_inbox_want_for(member->client, member->resource);
        } else {
            group->listeners[i].base.n_waiting--;
            relock_subscription_idle(member->client, member->resource);
        }
        relock_client_exit(member->client, &guard);
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static const struct relock_listener_ops ops = {.notify = notify, .deliver = deliver};

/* Releases of a fair lock are, but only to the waiters in its queue. */
static bool is_announced(const struct relock_group *group)
{
    for (size_t i = 0; i < group->n; i++) {
        const struct relock_kind *kind = group->members[i]->resource->kind;

        if (kind->is_polled || kind->is_queued)
            return false;
    }
    return true;
}

int relock_group_add_listeners(struct relock_group *group)
{
    group->is_announced = is_announced(group);
    group->listeners = calloc(group->n, sizeof(*group->listeners));
    if (!group->listeners)
        return RELOCK_E_NOMEM;
    for (size_t i = 0; i < group->n; i++) {
        struct relock_lock *member = group->members[i];
        bool is_added;

        group->listeners[i].base.ops = &ops;
        group->listeners[i].group = group;
        relock_mutex_lock(&member->client->mutex);
        is_added = relock_listener_add(member->resource, &group->listeners[i].base);
        relock_mutex_unlock(&member->client->mutex);
        if (!is_added)
            return RELOCK_E_NOMEM; /* the group is freed, with the listeners so far */
    }
    return RELOCK_OK;
}

void relock_group_remove_listeners(struct relock_group *group)
{
    /* In a forked child the mutexes of the parent's clients may be held for ever. */
    if (!group->listeners || group->members[0]->client->generation != relock_fork_generation())
        return;
    for (size_t i = 0; i < group->n; i++) {
        struct relock_lock *member = group->members[i];

        if (!group->listeners[i].base.resource)
            break; /* there was no memory to add it */
        relock_mutex_lock(&member->client->mutex);
        relock_listener_remove(member->resource, &group->listeners[i].base);
        relock_mutex_unlock(&member->client->mutex);
    }
    free(group->listeners);
}
