/*
 * Settle - releases in Redis what nobody holds
 *
 * A command that went unanswered may have taken a lock, or not have given it up. The I/O thread
 * has the connection killed on which it went, then releases the number, as often as it takes, until
 * Redis has answered: however late, for the command may be late too. Only a server that refuses is
 * left alone in the end, when it has let go by itself.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */
#ifndef RELOCK_SETTLE_H
#define RELOCK_SETTLE_H

#include "lock/client.h"

/* What is due for a hold that is settling. */
void relock_settle_step(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

#endif
