/*
 * Clients - all clients of this process
 *
 * Threads that end look for their holds on every client. They pin each client while they look, and
 * relock_client_free waits for them.
 *
 * Threads: any. The process mutex guards the list. The pins of a client grow under the process
 * mutex, while the client is on the list, and shrink under the client's own mutex.
 */
#ifndef RELOCK_CLIENTS_H
#define RELOCK_CLIENTS_H

#include "lock/client.h"

void relock_clients_add(struct relock_client *client);

/* From now on no thread can pin it; existing pins remain. */
void relock_clients_remove(struct relock_client *client);

/* Pins the next client after the `nth`; returns NULL after the last. */
struct relock_client *relock_clients_pin_next(uint64_t nth);
void relock_clients_unpin(struct relock_client *client);

bool relock_clients_is_pinned(const struct relock_client *client);

#endif
