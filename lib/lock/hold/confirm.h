/*
 * Confirm - has replicas acknowledge the renewals of holds, if the client has `min_replicas`
 *
 * The watchdog renews a hold over the connection that it shares with releases and pings. After the
 * grant, the hold is renewed once more over a connection of its own to the same node, the
 * confirmer, and WAIT counts the replicas that have this renewal. Only then is the hold certain for
 * longer. One WAIT serves all holds of a node whose renewals were granted before it was sent.
 *
 * The second renewal is needed for two reasons. WAIT counts replicas that have the last write of
 * its own connection. And after a failover, only an answer over that connection proves that this
 * server has the renewal.
 *
 *     state      next       when
 *     NONE       WANTED     the watchdog's renewal is granted: relock_confirm_want
 *     WANTED     SENT       the confirmer is up, and no WAIT is in flight there
 *     SENT       GRANTED    the renewal is granted, by `node`
 *     GRANTED    COUNTED    WAIT is sent to that node
 *     COUNTED    NONE       enough replicas have it: the hold is certain for longer
 *     COUNTED    NONE       too few have it: the hold is suspect, and is soon renewed again
 *     SENT       NONE       the renewal is not granted
 *     not NONE   WANTED     the connection broke
 *
 * While a hold is GRANTED, a WAIT is in flight at its node, so the connection is still the one that
 * granted it. A missing acknowledgement never shortens the time for which a hold is certain.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */
#ifndef RELOCK_CONFIRM_H
#define RELOCK_CONFIRM_H

#include "lock/state/client.h"

/* Whether a renewal of this hold has to be confirmed. Red locks ignore `min_replicas`: the other
 * servers stand in for replicas. */
static inline bool relock_confirm_is_needed(const struct relock_client *client,
                                            const struct relock_hold *hold)
{
    return client->options.min_replicas > 0 && !hold->detached;
}

/* Redis granted a renewal of the hold. The caller arms the timer of the hold. */
void relock_confirm_want(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* A confirmer is up, or keys have other nodes now: sends the renewals that waited for that. */
void relock_confirm_up(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
