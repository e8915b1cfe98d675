/*
 * Local - the state of multi and red locks that belongs to one client
 *
 * The resources of its multi and red locks are found by their members. Locks that are made of the
 * same members share one resource, whose data is the group that was the first to need it.
 *
 * It is attached when the first such lock with a member on the client is made, and lives as long as
 * the struct of the client.
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_LOCAL_H
#define RELOCK_LOCAL_H

#include "group/group.h"
#include "lock/state/cancel.h"
#include "lock/wake/outbox.h"

/* A call that acquires a multi lock, while it lasts. */
struct relock_local_call {
    uint64_t owner;
    struct relock_cancel *stop; /* ends its wait */
    struct relock_local_call *next, *prev;
};

struct relock_local {
    struct relock_client_hook hook;
    struct relock_group *groups;     /* that have a resource on the client, by members */
    struct relock_local_call *calls; /* on multi locks whose first member is on the client */
    struct relock_outbox votes;      /* commands about votes */
    struct relock_outbox inquiries;  /* of surveys */
};

/* Its work at the points of a client's life; life.c. */
extern const struct relock_client_hook_ops relock_local_ops;

/* Makes it, unless the client has it already. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_local_attach(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Of a client that has a member of a group. */
struct relock_local *relock_local_of(const struct relock_client *client);

/* The resource for the members of this group; NULL when there is none. */
struct relock_resource *relock_local_find(struct relock_client *client,
                                          const struct relock_group *group)
    RELOCK_REQUIRES(client->mutex);

/* Finds or makes it, with a reference. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_local_get(struct relock_client *client, struct relock_group *group,
                     const struct relock_resource *named, struct relock_resource **resource)
    RELOCK_REQUIRES(client->mutex);

/* At the end of the client: lets go of its holds of multi and red locks, on other clients, too.
 * Unlocks the mutex meanwhile. */
void relock_local_let_go(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
