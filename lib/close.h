/*
 * Close - the end of a client
 *
 * Threads: one, when no call is inside the client.
 */
#ifndef RELOCK_CLOSE_H
#define RELOCK_CLOSE_H

#include "lock/state/client.h"

/* Ends the threads of a client and frees all parts that were made, but not the struct. */
void relock_client_dispose(struct relock_client *client);

#endif
