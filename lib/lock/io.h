/*
 * Io - what the I/O thread of a client does, turn by turn
 *
 * Threads: turn on the I/O thread; start, stop while it does not run.
 */
#ifndef RELOCK_IO_H
#define RELOCK_IO_H

#include "lock/client.h"

/* Makes the loop and its connections and starts the thread. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_io_start(struct relock_client *client);

/* Ends the thread and closes the connections; copes with what was never started. */
void relock_io_stop(struct relock_client *client);

/* In a forked child: closes the descriptors, and no more. */
void relock_io_abandon(struct relock_client *client);

/* Connections made again, so far. Any thread. */
uint64_t relock_io_reconnects(const struct relock_client *client);

#endif
