/*
 * Reuse - a hold goes from owner to owner of this process, and Redis is not asked
 *
 * It is handed off to a thread that waits, or it is cached until some owner asks for it. It keeps
 * its number and its lease.
 *
 * Threads: with the mutex of the client locked.
 */
#ifndef RELOCK_REUSE_H
#define RELOCK_REUSE_H

#include "lock/state/client.h"
#include "lock/state/resource.h"

/* Hands it off with its number to the head of the queue, if possible. Returns whether it did. */
bool relock_reuse_hand_off(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* Whether another owner of this process may get it from memory: it is certain for long enough, and
 * no more lasting than what that owner would acquire itself. */
bool relock_reuse_is_possible(const struct relock_client *client, const struct relock_hold *hold,
                              uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* Its last level is released, and it stays with the process: see cache.h. */
void relock_reuse_cache(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* The owner of the waiter, which has not joined the queue, gets the cached hold. */
void relock_reuse_take_cached(struct relock_client *client, struct relock_hold *hold,
                              struct relock_waiter *waiter, uint64_t now_us)
    RELOCK_REQUIRES(client->mutex);

/* Redis does not have it any more. If an owner has it, that owner loses it; if it is cached, it
 * ends. Else nothing happens. */
void relock_reuse_lose(struct relock_client *client, struct relock_hold *hold, int reason,
                       uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* The cached hold does not stay any longer: the caller releases or ends it. */
void relock_reuse_leave_cache(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

#endif
