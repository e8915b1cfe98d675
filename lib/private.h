/*
 * Private - what the files of lib/ itself share, and nobody else
 */
#ifndef RELOCK_PRIVATE_H
#define RELOCK_PRIVATE_H

#include "lock/state/client.h"

#include <stdatomic.h>
#include <stdbool.h>

/* ---- io -------------------------------------------------------------------------------------- */

/*
 * I/O - the thread of a client that renews, subscribes, releases and sends in the background
 *
 * In each iteration it fires the timers that are due and does the work posted by other threads;
 * between them, libev runs its connections.
 *
 * Threads: start and stop while the thread does not run.
 */

/* Makes the loop and its connections and starts the thread. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_io_start(struct relock_client *client);

/* Ends the thread and closes the connections, as far as they were made. */
void relock_io_stop(struct relock_client *client);

/* ---- thread exit ----------------------------------------------------------------------------- */

/*
 * Thread exit - releases the locks that a thread still holds when it ends
 *
 * A thread that ends looks for its holds on every client of the process. It pins each client while
 * it looks, and relock_client_free waits for that.
 *
 * Threads: any, under no mutex unless a function says otherwise.
 */

/* From now on threads that end look for holds on the client. */
void relock_thread_exit_watch(struct relock_client *client);

/* From now on no more thread begins to look; some may still be looking. */
void relock_thread_exit_unwatch(struct relock_client *client);

/* Whether a thread that ends is looking for its holds. The last one broadcasts `changed`. */
static inline bool relock_thread_exit_is_pinned(const struct relock_client *client)
{
    return atomic_load(&client->n_pins) > 0;
}

#endif
