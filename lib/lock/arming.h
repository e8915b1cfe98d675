/*
 * Arming - has Redis report the next change of a lock that is held
 *
 * A hold is armed by a check or a renewal that is tracked (redis/tracking.h). When Redis then
 * reports a change, a check is due, which finds out what has happened and arms the hold anew
 * (reports.h). A hold is armed when it is 100 ms old, so short ones cost nothing.
 *
 * Threads: with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_ARMING_H
#define RELOCK_ARMING_H

#include "lock/client.h"

/* Redis has granted the hold. The caller arms its timer. */
void relock_arming_begin(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/*
 * Returns whether a command for the hold that is sent now is to be tracked: a check is due, or the
 * hold is armed and the command disarms it. If that is impossible, the node is to make it possible.
 * `node` is that of the lock, NULL while none is known. The I/O thread.
 */
bool relock_arming_take(struct relock_hold *hold, struct relock_node *node, uint64_t now_ms);

/* It was sent, and tracked by this node; NULL: it was not. */
void relock_arming_sent(struct relock_hold *hold, const struct relock_node *node);

/* That command was answered. If another node tracks it, that one reports the next change; if none
 * does, a check is due soon, as for a slot on its way to another node. The caller arms the timer of
 * the hold. */
void relock_arming_answered(struct relock_hold *hold, uint64_t now_ms);

/* A check is due then, or a while after `now_ms`, as it could not be sent. The caller arms the
 * timer of the hold. */
void relock_arming_set(struct relock_hold *hold, uint64_t at_ms);
void relock_arming_retry(struct relock_hold *hold, uint64_t now_ms);

/* A change was reported: when the check is due. It comes at once, unless many changes were. */
uint64_t relock_arming_pace(struct relock_hold *hold, uint64_t now_ms);

/* Nothing is to be reported for the hold. */
void relock_arming_drop(struct relock_hold *hold);

#endif
