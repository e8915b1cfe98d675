/*
 * Settle - releases in Redis what nobody holds
 *
 * A command that went unanswered may have taken a lock, or not have given it up. The I/O thread
 * has the connection killed on which it went, then releases the number, as often as it takes, until
 * Redis has answered: however late, for the command may be late too. Only a server that refuses is
 * left alone in the end, when it has let go by itself.
 *
 * A command whose caller has left it as an orphan is waited for: the connection is not killed under
 * the others on it unless the next command of the number cannot wait.
 *
 * Threads: as said at each, with the mutex of the client held.
 */
#ifndef RELOCK_SETTLE_H
#define RELOCK_SETTLE_H

#include "lock/client.h"

struct relock_call;

/*
 * A command under the number of the hold was left unanswered: nothing is settled before it has
 * ended, and once it was answered nothing has to be killed. If it was answered in time, this does
 * nothing. Threads: the one that made the call.
 */
void relock_settle_await(struct relock_client *client, struct relock_hold *hold,
                         struct relock_call *call) RELOCK_REQUIRES(client->mutex);

/* What is due for a hold that is settling. The I/O thread. */
void relock_settle_step(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

#endif
