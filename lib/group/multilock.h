/*
 * Multilock - several locks as one, all or none
 *
 * Threads: as operations.h says.
 */
#ifndef RELOCK_MULTILOCK_H
#define RELOCK_MULTILOCK_H

#include "group/group.h"
#include "lock/hold/acquire.h"
#include "lock/state/kind.h"
#include "lock/state/observer.h"

/*
 * Membership - follows the owner's hold of a member: if that is lost, so is the composite
 *
 * Threads: any, under no mutex.
 */

/* On the hold of a member. */
struct relock_membership {
    struct relock_observer observer;
    struct relock_group *group; /* a reference */
    uint64_t composite;         /* the number of the hold of the composite */
    size_t member;
};

/* Releases one level of a member. `*asks`: the call asks the server; otherwise the I/O thread does
 * so later. Clears it if the server is unreachable, so that the call does not wait for each member.
 */
int relock_group_release(struct relock_lock *member, uint64_t owner, uint64_t deadline_ms,
                         bool *asks);

/* The owner has no hold of a member, or a lost one: loses the composite. Returns false if the
 * composite has ended already. */
bool relock_group_miss(struct relock_group *group, uint64_t composite, size_t member,
                       uint64_t owner);

/* The owner's hold of the member becomes part of the composite and takes the membership over.
 * Returns false if the owner holds the member no more. */
bool relock_group_join(struct relock_membership *membership, uint64_t owner);

/* The owner's holds of all members cease to be part of the composite. */
void relock_group_part(struct relock_group *group, uint64_t composite, uint64_t owner);

/*
 * Collect - acquires the members of a multi lock, all or none
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */

/* One level of each member, as the operations `ask` and `nest`. */
void relock_collect(struct relock_acquire *acquire, struct relock_hold *hold,
                    struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex);

extern const struct relock_kind relock_kind_multi;

#endif
