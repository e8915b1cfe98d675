/*
 * Group - the locks that a multi or red lock is made of
 *
 * Such a lock is no key in Redis: the owner of its members holds it. Its state in this process is a
 * resource on the client of the first member, the coordinator. That resource has holds like any
 * other, so owners, losses and queries work as for all locks. Locks made of the same members, the
 * first of them on the same client, share that resource.
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

#include "lock/state/lock.h"
#include "lock/state/resource.h"

#include <assert.h>
#include <stdatomic.h>

struct relock_member_listener;

/*
 * The sequencer of a red lock: the member whose line (lock/wake/line.h) orders the clients that
 * wait. It is the first member, so it is the same in all processes. Votes on other servers join no
 * line.
 */
#define RELOCK_SEQUENCER 0

/* Where the head of the waiters of a red lock stands, since its last attempt. */
enum relock_standing {
    RELOCK_STANDING_OUTSIDE, /* in no line, or not known to be: it follows every message */
    RELOCK_STANDING_IN_LINE, /* it is told when it is its turn: it follows no message */
    RELOCK_STANDING_FIRST,   /* first, and told nothing for a while: it follows messages, slowly */
};

extern const struct relock_kind relock_kind_multi;
extern const struct relock_kind relock_kind_red;

struct relock_group {
    atomic_uint refs;
    struct relock_group *next_to_reap; /* once it has no reference */
    struct relock_client *coordinator; /* of the first member: a reference to the struct */
    const struct relock_kind *kind;
    uint64_t lease_ms; /* the shortest of their watchdogs' leases */
    bool is_announced; /* of a red lock: each member's release is published */
    struct relock_member_listener *listeners; /* of a red lock: one for each member; else NULL */
    struct {
        enum relock_standing standing;
        bool is_asking; /* a waiting call's attempt is in progress: until its answers tell where it
                           stands, it follows every event */
        bool is_heard;  /* an event was followed since the last attempt */
        unsigned n_rechecks; /* attempts since the last event */
        bool is_told;        /* by the sequencer, to acquire the lock */
        bool is_contended;   /* its last acquire, or the present one, took more than one attempt */
        bool is_bypassed;  /* the sequencer granted its vote, but others refused: the owner has the
                              lock without the sequencer, whose line is of no use meanwhile */
        uint64_t pause_ms; /* after a message, while it is bypassed */
    } order;               /* of a red lock; coordinator's mutex */
    UT_hash_handle hh;     /* in the coordinator's table of groups that have a resource */
    struct relock_resource *resource; /* whose data is this group, or NULL; coordinator's mutex */
    const void **key; /* identifies the group: its kind, and the resources of its members */
    size_t key_size;
    size_t n;
    struct relock_lock *members[]; /* handles of its own, in order */
};

/* How many of the `n` servers of a red lock decide. As `n` is odd, a quorum that refuses leaves no
 * quorum that grants. */
static inline unsigned relock_group_quorum(size_t n)
{
    return (unsigned)(n / 2) + 1;
}

/* The group of a composite's resource; NULL if the resource is not that of a multi or red lock. */
static inline struct relock_group *relock_group_of(const struct relock_resource *resource)
{
    return resource->data;
}

/* Where the caller holds the mutex of a client that is the coordinator: clang's analysis cannot
 * know that two names of one mutex are the same. */
static inline void relock_group_is_under(const struct relock_group *group,
                                         const struct relock_client *client)
    RELOCK_ASSERTS(group->coordinator->mutex)
{
    assert(group->coordinator == client);
    (void)group;
    (void)client;
}

/* Any thread, under any mutex. */
struct relock_group *relock_group_ref(struct relock_group *group);

/*
 * Takes NULL. Under any mutex. The end of a group locks the mutexes of its members' clients, but
 * its last reference may be dropped under one of them. So a group without references is reaped
 * later, by the next thread that comes by without a mutex: an I/O thread, at the latest.
 */
void relock_group_unref(struct relock_group *group);

/* Returns false if the group has no reference any more, and is only to be reaped. */
bool relock_group_try_ref(struct relock_group *group);

/* Frees the groups without references. Under no mutex. */
void relock_group_reap(void);

#endif
