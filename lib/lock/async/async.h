/*
 * Async - asynchronous calls
 *
 * What lib/lock/async offers to the I/O thread. The program makes such calls by the public header.
 */
#ifndef RELOCK_ASYNC_H
#define RELOCK_ASYNC_H

#include "lock/state/client.h"

/* The I/O thread has a connection again: sends what is paused. */
void relock_async_command_up(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
