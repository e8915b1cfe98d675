/*
 * Check - the I/O thread asks Redis whether a hold is there, and changes nothing
 *
 * A check has Redis report the next change of the lock (arming.h). It finds a hold that is gone
 * exactly as a renewal does. But it makes no hold certain for longer, so it can be sent for a fixed
 * lease, too, and a failure says nothing about the hold: the next renewal tells.
 *
 * Threads: the I/O thread.
 */
#ifndef RELOCK_CHECK_H
#define RELOCK_CHECK_H

#include "lock/client.h"

/* The hold is held, is due for a check, and has no command in flight. */
void relock_check_send(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

#endif
