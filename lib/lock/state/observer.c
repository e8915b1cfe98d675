#include "lock/state/observer.h"

#include "base/hash.h"

void relock_observer_add(struct relock_client *client, struct relock_hold *hold,
                         struct relock_observer *observer)
{
    (void)client;
    observer->is_told = false;
    DL_APPEND(hold->observers, observer);
}

void relock_observer_remove(struct relock_client *client, struct relock_hold *hold,
                            struct relock_observer *observer)
{
    (void)client;
    DL_DELETE(hold->observers, observer);
}

struct relock_observer *relock_observer_find(const struct relock_hold *hold,
                                             const struct relock_observer_ops *ops)
{
    struct relock_observer *observer;

    DL_FOREACH(hold->observers, observer)
    if (observer->ops == ops)
        return observer;
    return NULL;
}

static struct relock_observer *next_to_tell(const struct relock_hold *hold)
{
    struct relock_observer *observer;

    DL_FOREACH(hold->observers, observer)
    if (observer->ops->lost && !observer->is_told)
        return observer;
    return NULL;
}

bool relock_observer_awaits_loss(const struct relock_hold *hold)
{
    return next_to_tell(hold) != NULL;
}

/* From the first each time: others may be removed while the mutex is unlocked. */
void relock_observer_tell_lost(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_observer *observer;

    while ((observer = next_to_tell(hold))) {
        observer->is_told = true;
        observer->ops->lost(client, hold, observer);
    }
}

/* One that is called here stays in the list, and with it its place. */
void relock_observer_tell_renewed(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_observer *observer;
    uint64_t sent_ms = hold->sent_ms;

    DL_FOREACH(hold->observers, observer)
    if (observer->ops->renewed)
        observer->ops->renewed(client, hold, observer, sent_ms);
}

void relock_observer_drop_all(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_observer *observer;
    struct relock_observer *next;

    (void)client;
    DL_FOREACH_SAFE(hold->observers, observer, next)
    observer->ops->gone(observer);
}
