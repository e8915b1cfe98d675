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

/*
 * Collect - acquires the members of a multi lock, all or none
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */

extern const struct relock_kind relock_kind_multi;

#endif
