/*
 * Resources - finds, makes and frees the resources of a client
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_RESOURCES_H
#define RELOCK_RESOURCES_H

#include "lock/state/client.h"
#include "lock/state/resource.h"

/*
 * Finds or makes the resource of a name, with a reference. Returns NULL when out of memory, or if
 * it would conflict with another lock of the client: then `*why` says how.
 */
struct relock_resource *relock_resources_get(struct relock_client *client,
                                             const struct relock_kind *kind, const char *name,
                                             size_t len, const char **why)
    RELOCK_REQUIRES(client->mutex);

/*
 * Makes a resource that is not found by name, with a reference: its maker finds it by its `data`.
 * It has the same name as `named`. When the resource ends, it calls `free_data` with `data`.
 * Returns NULL when out of memory, and `data` stays the caller's.
 */
struct relock_resource *
relock_resources_new_unlisted(struct relock_client *client, const struct relock_kind *kind,
                              const struct relock_resource *named, void *data,
                              relock_resource_free_fn *free_data) RELOCK_REQUIRES(client->mutex);

/* Makes a resource for one waiter for a fair lock, with a reference. Returns NULL when out of
 * memory. */
struct relock_resource *relock_resources_new_fair_waiter(struct relock_client *client,
                                                         struct relock_resource *primary)
    RELOCK_REQUIRES(client->mutex);

/* The side of a read/write lock, or the lock itself if `side` is NULL. Returns NULL, or a resource
 * without a new reference. */
struct relock_resource *relock_resources_find(struct relock_client *client, const char *name,
                                              size_t len, const char *side)
    RELOCK_REQUIRES(client->mutex);

/* The primary of the lock that is this key in Redis. Returns NULL, or a resource without a new
 * reference. */
struct relock_resource *relock_resources_find_key(struct relock_client *client, const char *key,
                                                  size_t len) RELOCK_REQUIRES(client->mutex);

/* Drops a reference; the last one frees the resource. */
void relock_resources_unref(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* At the end of a client: drops all references to a primary and its secondaries but those of
 * handles. */
void relock_resources_drop(struct relock_client *client, struct relock_resource *primary)
    RELOCK_REQUIRES(client->mutex);

#endif
