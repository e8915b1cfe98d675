/*
 * Inquiry - asks a server for the holder of a lock, on the connection of the I/O thread
 *
 * A thread that has several servers to ask posts one inquiry to each, so that it waits for none of
 * them in particular.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_INQUIRY_H
#define RELOCK_INQUIRY_H

#include "lock/lock.h"

struct redisReply;

/* The outcome: RELOCK_OK and the reply, or why the query failed. Under no mutex. */
typedef void relock_inquiry_fn(void *arg, int result, const struct redisReply *reply);

/*
 * Asks for the holder of the resource, which lives until `fn` was called. `number` is that of the
 * caller's hold, 0 for none.
 *
 * Returns RELOCK_OK, and `fn` is called once; RELOCK_E_NOMEM; RELOCK_E_CONN when the server has
 * left an inquiry unanswered for so long that no further ones are to pile up there.
 */
int relock_inquiry_post(struct relock_client *client, struct relock_resource *resource,
                        uint64_t number, relock_inquiry_fn *fn, void *arg)
    RELOCK_REQUIRES(client->mutex);

#endif
