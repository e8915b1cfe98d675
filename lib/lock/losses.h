/*
 * Losses - tells the program of each hold that was lost
 *
 * Once, on the I/O thread, under no mutex. Whoever gives up the last level of such a hold waits
 * until the callback is over, or takes it out of the list: then it does not come.
 */
#ifndef RELOCK_LOSSES_H
#define RELOCK_LOSSES_H

#include "lock/client.h"

/* Tells the next, if there is one. The I/O thread; gives the mutex up meanwhile. */
void relock_losses_tell_next(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Whether this is a callback, and to wait for that of this hold would block it. */
bool relock_losses_block(const struct relock_client *client, const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Waits until the callback of this hold is over, unless this is the callback. Any thread. */
void relock_losses_wait(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* A word for a RELOCK_LOST_* reason. */
const char *relock_losses_reason(int reason);

#endif
