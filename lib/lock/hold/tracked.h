/*
 * Tracked - has Redis report the next change of a lock that is held
 *
 * A hold is tracked after a check or a renewal that is tracked (redis/io/tracking.h). When Redis
 * then reports a change, a check is due, which finds out what has happened and is tracked again
 * (watchdog.h). A hold is tracked when it is 100 ms old, so short ones cost nothing.
 *
 * Threads: with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_TRACKED_H
#define RELOCK_TRACKED_H

#include "lock/state/client.h"

/* Redis has granted the hold. The caller arms its timer. */
void relock_tracked_begin(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/*
 * Returns whether a command for the hold that is sent now is to be tracked: a check is due, or the
 * hold is tracked and the command ends that. If the node does not track yet, asks it to, and
 * returns false. `node` is that of the lock, NULL while none is known. The I/O thread.
 */
bool relock_tracked_take(struct relock_hold *hold, struct relock_node *node, uint64_t now_ms);

/* The command was sent. `node` tracks it; NULL: no node does. */
void relock_tracked_sent(struct relock_hold *hold, const struct relock_node *node);

/* The command was answered. The node that tracked it, perhaps another one, reports the next change.
 * If none did, for example while the slot moves to another node, a check is due soon. The caller
 * arms the timer of the hold. */
void relock_tracked_answered(struct relock_hold *hold, uint64_t now_ms);

/* A check is due at `at_ms`. The caller arms the timer of the hold. */
void relock_tracked_set(struct relock_hold *hold, uint64_t at_ms);

/* A check could not be sent: it is due a while after `now_ms`. The caller arms the hold's timer. */
void relock_tracked_retry(struct relock_hold *hold, uint64_t now_ms);

/* A change was reported: returns when the check is due. That is at once unless reports are many. */
uint64_t relock_tracked_pace(struct relock_hold *hold, uint64_t now_ms);

/* The hold needs no reports any more. */
void relock_tracked_drop(struct relock_hold *hold);

#endif
