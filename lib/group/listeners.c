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
 * A server that grants its vote was free anyhow, and the message may have announced that this lock
 * itself released a vote: a waiter that retried for it would wake itself for ever. Only the answer
 * to the last question counts. A vote granted late may be why the next one was refused; the message
 * about the release of the first is then worth a retry.
 *
 * Messages count even while no call waits: a waiter that is just being refused does not wait yet,
 * and nothing else tells it of a release in between if the channel is still subscribed from before.
 */
#include "group/listeners.h"

#include "base/fork.h"
#include "lock/subscription.h"

#include <stdlib.h>

/* ---- messages ------------------------------------------------------------------------------ */

static struct relock_member_listener *listener_of(struct relock_listener *base)
{
    return (struct relock_member_listener *)((char *)base -
                                             offsetof(struct relock_member_listener, base));
}

static bool is_worth_a_retry(struct relock_member_listener *listener)
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

static bool notify(struct relock_listener *base, bool is_message)
{
    struct relock_member_listener *listener = listener_of(base);

    /* A group without references keeps its listeners until it is reaped. */
    return (!is_message || is_worth_a_retry(listener)) && relock_group_try_ref(listener->group);
}

static void deliver(struct relock_listener *base, bool is_message)
{
    struct relock_group *group = listener_of(base)->group;

    relock_group_retry(group, is_message);
    relock_group_unref(group);
}

void relock_group_retry(struct relock_group *group, bool is_message)
{
    relock_mutex_lock(&group->coordinator->mutex);
    if (group->resource)
        relock_resource_signal(group->resource, is_message);
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
        } else {
            group->listeners[i].base.n_waiting--;
            relock_subscription_idle(member->client, member->resource);
        }
        relock_client_leave(member->client, &guard);
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

        group->listeners[i].base.ops = &ops;
        group->listeners[i].group = group;
        relock_mutex_lock(&member->client->mutex);
        relock_listener_add(member->resource, &group->listeners[i].base);
        relock_mutex_unlock(&member->client->mutex);
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

        relock_mutex_lock(&member->client->mutex);
        relock_listener_remove(member->resource, &group->listeners[i].base);
        relock_mutex_unlock(&member->client->mutex);
    }
    free(group->listeners);
}
