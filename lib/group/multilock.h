/*
 * Multilock - several locks as one, all or none
 *
 * Threads: as kind.h says of operations; observers under no mutex.
 */
#ifndef RELOCK_MULTILOCK_H
#define RELOCK_MULTILOCK_H

#include "group/group.h"
#include "lock/state/kind.h"
#include "lock/state/observer.h"

/* On the owner's hold of a member: if that is lost, so is the composite. */
struct relock_membership {
    struct relock_observer observer;
    struct relock_group *group; /* a reference */
    uint64_t composite;         /* the number of the hold of the composite */
    size_t member;
};

extern const struct relock_kind relock_kind_multi;

#endif
