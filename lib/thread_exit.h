/*
 * Thread exit - releases the locks that a thread still holds when it ends
 *
 * A thread that ends looks for its holds on every client of the process. It pins each client while
 * it looks, and relock_client_free waits for that.
 *
 * Threads: any, under no mutex unless a function says otherwise.
 */
#ifndef RELOCK_THREAD_EXIT_H
#define RELOCK_THREAD_EXIT_H

#include "lock/state/client.h"

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
