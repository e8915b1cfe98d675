/*
 * Settle - releases in Redis the holds that no owner of this process has
 *
 * A command that was not answered may have acquired a lock, or failed to release it. The I/O thread
 * kills the connection on which it was sent, then releases the number of the hold, and repeats both
 * until Redis answers. It stops without an answer only if the server refuses for a whole lease,
 * since the hold has expired there by then.
 *
 * A command may still be in flight when its caller returns. Settling waits for it, so that the
 * connection is not killed under other commands.
 *
 * Threads: as each function says, with the mutex of the client locked.
 */
#ifndef RELOCK_SETTLE_H
#define RELOCK_SETTLE_H

#include "lock/state/client.h"
#include "lock/state/hold.h"

struct relock_call;

/*
 * A command under the number of the hold has left an orphan. The hold is not settled before the
 * orphan has ended. If the orphan was answered, its connection need not be killed. Threads: the one
 * that made the call.
 */
void relock_settle_await(struct relock_client *client, struct relock_hold *hold,
                         struct relock_call *call) RELOCK_REQUIRES(client->mutex);

/* A command of the I/O thread under the number of the hold is in flight over the connection with
 * this id; NULL: it has no id. */
void relock_settle_sent(struct relock_hold *hold, struct relock_conn_id *conn_id);

/* Such a command has ended, with or without an answer. */
void relock_settle_ended(struct relock_client *client, struct relock_hold *hold,
                         const struct relock_conn_id *conn_id, bool answered)
    RELOCK_REQUIRES(client->mutex);

/* The timer of a settling hold has fired: sends the release. The I/O thread. */
void relock_settle_step(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* The hold is no longer needed, whatever its state, and no caller waits for its release: if Redis
 * may still have it, the I/O thread releases it there. May unlock the mutex meanwhile, and drops
 * the reference of the owner. */
void relock_let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* A renewal of a live hold failed with `result`. It is repeated after a pause, or without a
 * connection (RELOCK_E_CONN) when there is one again. A cached hold is let go, because nobody needs
 * it. The caller arms, and has a reference. The I/O thread. */
void relock_let_go_suspect(struct relock_client *client, struct relock_hold *hold, int result)
    RELOCK_REQUIRES(client->mutex);

#endif
