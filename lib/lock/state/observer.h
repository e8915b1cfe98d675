/*
 * Observer - follows one hold, for a layer above that has made the hold part of something larger
 *
 * A hold has a list of observers and tells them of a renewal, of its loss and of its end. It knows
 * nothing else of them. An observer is embedded in the struct of its maker, which the functions of
 * `ops` find from it.
 *
 * Threads: guarded by the mutex of the hold's client.
 */
#ifndef RELOCK_OBSERVER_H
#define RELOCK_OBSERVER_H

#include "lock/state/client.h"

#include <stdbool.h>
#include <stdint.h>

struct relock_observer;

/*
 * The hold calls these with the mutex locked; NULL for none. `lost` and `renewed` may unlock the
 * mutex and lock it again, since the caller has a reference to the hold. They may change the hold
 * through lib/lock/hold/holds.h. An observer with `renewed` is never removed.
 */
struct relock_observer_ops {
    /* The hold ended without a release, see `lost_reason`. Called once, before on_lost. I/O thread.
     */
    void (*lost)(struct relock_client *client, struct relock_hold *hold,
                 struct relock_observer *observer);
    /* A renewal sent at `sent_ms` was granted: the hold is certain until its `valid_until_ms`. I/O
     * thread. */
    void (*renewed)(struct relock_client *client, struct relock_hold *hold,
                    struct relock_observer *observer, uint64_t sent_ms);
    /* The hold is freed, lost or not, and so is the observer, by this. Locks and unlocks no mutex.
     * Any thread. */
    void (*gone)(struct relock_observer *observer);
};

struct relock_observer {
    const struct relock_observer_ops *ops; /* constant */
    bool is_told;                          /* of the loss */
    struct relock_observer *next, *prev;
};

/* The observer follows the hold from now on. The hold is not lost. */
void relock_observer_add(struct relock_client *client, struct relock_hold *hold,
                         struct relock_observer *observer) RELOCK_REQUIRES(client->mutex);

/* It no longer does, and is the caller's: `gone` is not called. */
void relock_observer_remove(struct relock_client *client, struct relock_hold *hold,
                            struct relock_observer *observer) RELOCK_REQUIRES(client->mutex);

/* An observer with these operations, the first if there are several; NULL if there is none. */
struct relock_observer *relock_observer_find(const struct relock_hold *hold,
                                             const struct relock_observer_ops *ops);

/* Whether an observer has yet to be told of a loss. */
bool relock_observer_awaits_loss(const struct relock_hold *hold);

/* Tells all observers. They may unlock the mutex and lock it again. */
void relock_observer_tell_lost(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);
void relock_observer_tell_renewed(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* The hold is being freed. */
void relock_observer_drop_all(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

#endif
