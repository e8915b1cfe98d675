/*
 * I/O - the thread of a client that renews, subscribes, releases and sends in the background
 *
 * In each turn it fires the timers that are due and does the work posted by other threads; between
 * the turns, libev runs its connections.
 *
 * Threads: start and stop while the thread does not run.
 */
#ifndef RELOCK_IO_H
#define RELOCK_IO_H

#include "lock/state/client.h"

/* Makes the loop and its connections and starts the thread. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_io_start(struct relock_client *client);

/* Ends the thread and closes the connections, as far as they were made. */
void relock_io_stop(struct relock_client *client);

#endif
