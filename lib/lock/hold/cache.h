/*
 * Cache - holds that go from owner to owner of this process, and Redis is not asked
 *
 * A hold is handed off to a thread that waits, or it is cached until some owner asks for it. It
 * keeps its number and its lease.
 *
 * With `keep_ms`, the last release leaves the hold as it is in Redis: it is cached until `keep_ms`
 * after Redis granted it. The next owner of this process gets it from memory, as in a hand-off.
 * A cached hold belongs to no owner: queries from memory report the lock as free.
 *
 * Another client that is refused recalls the hold: its script publishes a message to the inbox of
 * this client (inbox.h). A cached hold is then released at once, and a held one at its last
 * release. So a hold is cached only if the inbox was open since before the hold was asked for.
 *
 * No call waits here for a lock that is cached: it gets the hold, or has it released first.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_CACHE_H
#define RELOCK_CACHE_H

#include "lock/hold/acquire.h"
#include "lock/state/client.h"
#include "lock/state/resource.h"

/* Hands it off with its number to the head of the queue, if possible. Returns whether it did. */
bool relock_cache_hand_off(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* The owner of the waiter, which has not joined the queue, gets the cached hold. */
void relock_cache_give(struct relock_client *client, struct relock_hold *hold,
                       struct relock_waiter *waiter, uint64_t now_us)
    RELOCK_REQUIRES(client->mutex);

/* Redis does not have it any more. If an owner has it, that owner loses it; if it is cached, it
 * ends. Else nothing happens. */
void relock_cache_lose(struct relock_client *client, struct relock_hold *hold, int reason,
                       uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* The cached hold does not stay any longer: the caller releases or ends it. */
void relock_cache_drop(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* The last level of the hold is released. Returns whether it stays in the cache. */
bool relock_cache_keep(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/*
 * The lock that this call wants is cached. Returns RELOCK_OK if the call has it now, with
 * `acquire->hold`. If the cached hold is of no use to the call, it is released. A blocking call
 * waits for that, with the mutex unlocked: RELOCK_AGAIN. For an asynchronous call, the release goes
 * out before the call's next command: RELOCK_BUSY; but while a command about the cached hold runs,
 * nothing is done, and the call follows the hold: RELOCK_AGAIN.
 */
int relock_cache_take(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* Releases a cached hold, and unlocks the mutex meanwhile. The calling thread. */
void relock_cache_release(struct relock_client *client, struct relock_hold *hold,
                          uint64_t deadline_ms) RELOCK_REQUIRES(client->mutex);

/* Another client has recalled the hold with this number: decimal digits, `len` bytes. */
void relock_cache_recall(struct relock_client *client, struct relock_resource *resource,
                         const char *number, size_t len) RELOCK_REQUIRES(client->mutex);

/* Recalls may be missed, or no new owner may come: releases all cached holds. No hold that an owner
 * has now is cached later. */
void relock_cache_clear(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
