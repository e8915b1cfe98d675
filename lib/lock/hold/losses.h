/*
 * Losses - reports lost holds: to the log, to observers, and to the program by on_lost
 *
 * The I/O thread logs each loss and tells the observers of the hold. It never calls the program: a
 * second thread calls on_lost, once for each hold, with no mutex locked. A release of the last
 * level of such a hold waits for a running callback, and cancels one that has not begun.
 */
#ifndef RELOCK_LOSSES_H
#define RELOCK_LOSSES_H

#include "lock/state/client.h"

/* Starts the thread that calls on_lost. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_losses_start(struct relock_client *client);

/* Ends it after the running callback. Does nothing if it was not started. */
void relock_losses_stop(struct relock_client *client);

/* The task `loss` of a hold: takes up the loss. */
void relock_losses_take_up(struct relock_client *client, struct relock_task *loss)
    RELOCK_REQUIRES(client->mutex);

/* Calls on_lost on this thread, and drops the reference. The hold was TO_TELL, and the caller has
 * taken it out of its list. Unlocks the mutex meanwhile. */
void relock_losses_tell(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Whether this thread runs another callback, so that it may not wait for that of this hold. */
bool relock_losses_block(const struct relock_hold *hold);

/* Waits for the running callback of this hold, unless the caller is that callback. Any thread. */
void relock_losses_wait(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

#endif
