/*
 * Losses - what follows when a hold was lost, and the callback that tells the program
 *
 * The I/O thread sees to what the library must know of a loss: the log, the vote, the multi locks.
 * It never calls the program: on_lost runs on a thread of its own, once for each hold, under no
 * mutex. Whoever gives up the last level of such a hold waits until its callback is over, or takes
 * it out of the list: then it does not come.
 */
#ifndef RELOCK_LOSSES_H
#define RELOCK_LOSSES_H

#include "lock/client.h"

/* Starts the thread of the callbacks. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_losses_start(struct relock_client *client);

/* Ends it, after the callback that is running; copes with one that was not started. */
void relock_losses_stop(struct relock_client *client);

/* Takes up the next loss, if there is one. The I/O thread; gives the mutex up meanwhile. */
void relock_losses_take_up_next(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Nobody needs to be told of it any more, if it has not been yet. Drops the list's reference. */
void relock_losses_forget(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Whether this is a callback, and to wait for that of this hold would block it. */
bool relock_losses_block(const struct relock_client *client, const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Waits until the callback of this hold is over, unless this is the callback. Any thread. */
void relock_losses_wait(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* A word for a RELOCK_LOST_* reason. */
const char *relock_losses_reason(int reason);

#endif
