/*
 * Sides - both sides of one read/write lock, and its state in Redis
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_SIDES_H
#define RELOCK_TEST_SIDES_H

#include "support/fixture.h"

#define SIDES_CHANNEL "redisson_rwlock:{orders}"

struct sides {
    struct relock_lock *read, *write;
};

/* Handles of "orders", freed at the end of the test. */
struct sides sides_of(struct fixture *f, struct relock_client *client);

/* The holder of one side, from relock_who_holds(). */
struct relock_holder sides_holder(struct relock_lock *side);

/* The lease of a level of a reader, whose id is the holder's; -2 when there is none. */
long long sides_level_rest(struct probe *probe, const char *id, unsigned level);

#endif
