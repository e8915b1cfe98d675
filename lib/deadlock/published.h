/*
 * Published - publishes in Redis the waits of this client that last for long
 *
 * Other clients follow these hashes when they look for deadlocks (chain.c). A wait is published
 * when it has lasted for `deadlock_ms`, if its owner holds other locks meanwhile. As long as such
 * waits last, the hash is sent again a few times a second, each time with a higher beat. It is
 * sent only after the answer to the one before. So a client without such waits sends nothing.
 * docs/wire.md has the format.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_PUBLISHED_H
#define RELOCK_PUBLISHED_H

#include "lock/state/client.h"

/* Searches for deadlocks with other clients from now on, unless the options of the client forbid
 * it. Before another thread knows the client. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_published_attach(struct relock_client *client);

#endif
