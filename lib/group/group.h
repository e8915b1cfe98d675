/*
 * Group - the locks that a multi or red lock is made of
 *
 * Such a lock is no key in Redis: the owner of its members holds it. Its state in this process is a
 * resource on the client of the first member, the coordinator, with holds like any other, so
 * owners, losses and queries work as for all locks. Locks made of the same members, the first of
 * them on the same client, share that resource.
 *
 * Members stand in one order, whatever the caller's: by name, then by server. So two callers that
 * acquire one member after the other never wait for each other in a ring, also in two processes.
 *
 * A group lives as long as something refers to it: its resource, tallies, memberships.
 *
 * Threads: any. All is constant but for the references and what the mutex of the coordinator
 * guards.
 */
#ifndef RELOCK_GROUP_H
#define RELOCK_GROUP_H

#include "lock/lock.h"
#include "lock/resource.h"

#include <stdatomic.h>

struct relock_member_listener;

struct relock_group {
    atomic_uint refs;
    struct relock_group *next_to_reap; /* when it has no references */
    struct relock_client *coordinator; /* of the first member: a reference to the struct */
    const struct relock_kind *kind;
    uint64_t lease_ms;                        /* the shortest of their watchdogs' leases */
    bool is_announced;                        /* of a red lock: the release of each member is */
    struct relock_member_listener *listeners; /* of a red lock: one for each member; else NULL */
    UT_hash_handle hh; /* in the coordinator's table of groups that have a resource */
    struct relock_resource *resource; /* whose data is this group, or NULL; coordinator's mutex */
    const void **key; /* identifies the group: its kind, and the resources of its members */
    size_t key_size;
    size_t n;
    struct relock_lock *members[]; /* handles of its own, in order */
};

/* The group of a composite's resource; NULL if the resource is not that of a multi or red lock. */
static inline struct relock_group *relock_group_of(const struct relock_resource *resource)
{
    return resource->data;
}

/* Any thread, under any mutex. */
struct relock_group *relock_group_ref(struct relock_group *group);

/* Takes NULL. Under any mutex: a group without references is reaped later, see life.h. */
void relock_group_unref(struct relock_group *group);

/* Returns false if the group has no reference any more, and is only to be reaped. */
bool relock_group_try_ref(struct relock_group *group);

/* Takes all groups without references, linked by `next_to_reap`; NULL if there is none. */
struct relock_group *relock_group_take_unreferenced(void);

#endif
