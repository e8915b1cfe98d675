/*
 * The ears of a group: a red lock listens to what is announced on its members' sites.
 */
#include "base/fork.h"
#include "lock/group.h"
#include "lock/sites.h"
#include "lock/subscription.h"

#include <stdlib.h>

/* ---- life ---------------------------------------------------------------------------------- */

/* A fair lock's releases are, but to whoever stands in its queue alone. */
static bool is_heard_of(const struct relock_kind *kind)
{
    return !kind->is_polled && !kind->is_queued;
}

static bool is_announced(const struct relock_group *group)
{
    for (size_t i = 0; i < group->n; i++)
        if (!is_heard_of(group->members[i]->site->kind))
            return false;
    return true;
}

RELOCK_UNCHECKED int relock_group_lend_ears(struct relock_group *group)
{
    group->is_announced = is_announced(group);
    group->ears = calloc(group->n, sizeof(struct relock_ear *));
    for (size_t i = 0; group->ears && i < group->n; i++) {
        struct relock_lock *member = group->members[i];
        struct relock_ear *ear = calloc(1, sizeof(*ear));

        if (!ear)
            return RELOCK_E_NOMEM;
        ear->group = group;
        group->ears[i] = ear;
        relock_mutex_lock(&member->client->mutex);
        DL_APPEND(relock_site_listener(member->site)->ears, ear);
        relock_mutex_unlock(&member->client->mutex);
    }
    return group->ears ? RELOCK_OK : RELOCK_E_NOMEM;
}

/* In a forked child the mutexes of the parent's clients may be held for ever. */
RELOCK_UNCHECKED void relock_group_remove_ears(struct relock_group *group)
{
    for (size_t i = 0; group->ears && i < group->n; i++) {
        struct relock_lock *member = group->members[i];

        if (!group->ears[i] || member->client->generation != relock_fork_generation())
            continue;
        relock_mutex_lock(&member->client->mutex);
        DL_DELETE(relock_site_listener(member->site)->ears, group->ears[i]);
        relock_mutex_unlock(&member->client->mutex);
        free(group->ears[i]);
    }
    free(group->ears);
}

/* ---- listening ----------------------------------------------------------------------------- */

RELOCK_UNCHECKED void relock_group_listen(struct relock_group *group, bool listens)
{
    for (size_t i = 0; i < group->n; i++) {
        struct relock_lock *member = group->members[i];
        struct relock_visit visit;

        if (relock_client_enter(member->client, false, &visit) < 0)
            continue;
        if (listens) {
            group->ears[i]->n_listening++;
            if (!member->site->kind->is_queued)
                relock_subscription_want(member->client, member->site);
        } else {
            group->ears[i]->n_listening--;
            relock_subscription_idle(member->client, member->site);
        }
        relock_client_leave(member->client, &visit);
    }
}

/* The ears of the dead stay until they are buried. */
static bool try_ref(struct relock_group *group)
{
    unsigned refs = atomic_load(&group->refs);

    while (refs > 0 && !atomic_compare_exchange_weak(&group->refs, &refs, refs + 1))
        continue;
    return refs > 0;
}

static void hear(struct relock_group *group, bool is_message)
{
    struct relock_site *site;

    relock_mutex_lock(&group->home->mutex);
    site = relock_sites_find_group(group->home, group);
    if (site)
        relock_site_add_news(site, is_message);
    relock_mutex_unlock(&group->home->mutex);
}

/* The next that has heard and was not told, with a reference. */
static struct relock_group *next_to_hear(struct relock_site *site)
{
    struct relock_ear *ear;

    DL_FOREACH(site->ears, ear)
    {
        if (!ear->has_heard)
            continue;
        ear->has_heard = false;
        if (try_ref(ear->group))
            return ear->group;
    }
    return NULL;
}

/* Under no mutex. */
RELOCK_UNCHECKED static void tell_groups(struct relock_site *site, bool is_message)
{
    struct relock_mutex *mutex = &site->client->mutex;
    struct relock_group *group;

    relock_mutex_lock(mutex);
    while ((group = next_to_hear(site))) {
        relock_mutex_unlock(mutex);
        hear(group, is_message);
        relock_group_unref(group);
        relock_mutex_lock(mutex);
    }
    relock_mutex_unlock(mutex);
}

/*
 * Whether a message is news depends on what the server says to whoever asks it: one that grants its
 * vote was free anyhow, and the release may have been that of a vote that was given back. So who
 * asks again for the sake of a message that comes while it asks would wake itself for ever.
 */
static bool is_news(struct relock_ear *ear)
{
    if (ear->asked == 0)
        return !ear->was_free;
    ear->is_news = true;
    return false;
}

/*
 * Whether anybody listens or not: who is being refused does not yet, and where the channel is still
 * there from before nothing else tells of a release that comes between.
 */
RELOCK_UNCHECKED void relock_group_hear(struct relock_site *site, bool is_message)
{
    struct relock_ear *ear;

    relock_mutex_lock(&site->client->mutex);
    DL_FOREACH(site->ears, ear)
    if (!is_message || is_news(ear))
        ear->has_heard = true;
    relock_mutex_unlock(&site->client->mutex);
    tell_groups(site, is_message);
}

/* ---- asking -------------------------------------------------------------------------------- */

void relock_group_asks(struct relock_ear *ear, uint64_t number)
{
    ear->asked = number;
}

/*
 * Only the answer to what was asked last counts: behind a vote that was granted late another may be
 * refused on its account, and that the first is given back is news then.
 */
bool relock_group_is_answered(struct relock_ear *ear, uint64_t number, bool is_granted)
{
    bool is_heard;

    if (ear->asked != number)
        return false;
    is_heard = ear->is_news && !is_granted;
    ear->asked = 0;
    ear->was_free = is_granted;
    ear->is_news = false;
    if (is_heard)
        ear->has_heard = true;
    return is_heard;
}

void relock_group_hear_on(struct relock_site *site)
{
    tell_groups(site, true);
}
