/*
 * Composites - the resources of a client's multi and red locks, found by their members
 *
 * Locks that are made of the same members share one resource, whose data is the group that was the
 * first to need it.
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_COMPOSITES_H
#define RELOCK_COMPOSITES_H

#include "group/group.h"

/* The resource for the members of this group; NULL when there is none. */
struct relock_resource *relock_composites_find(struct relock_client *client,
                                               const struct relock_group *group)
    RELOCK_REQUIRES(client->mutex);

/* Finds or makes it, with a reference. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_composites_get(struct relock_client *client, struct relock_group *group,
                          const char *name, struct relock_resource **resource)
    RELOCK_REQUIRES(client->mutex);

/* At the end of the client: lets go of its holds of multi and red locks, on other clients, too.
 * Unlocks the mutex meanwhile. */
void relock_composites_let_go(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
