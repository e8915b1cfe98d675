/*
 * Cycle - two clients that wait for each other
 *
 * Each has an actor, which holds the lock of its number and wants the other one.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_CYCLE_H
#define RELOCK_TEST_CYCLE_H

#include "support/actor.h"
#include "support/fixture.h"

struct cycle {
    struct relock_client *clients[2];
    struct relock_lock *has[2], *wants[2];
    struct actor *actors[2];
};

/* Each acquires its lock, of this kind. */
struct cycle cycle_new(struct fixture *f, struct relock_client *const clients[2],
                       const char *const names[2], fixture_constructor_fn *make);

/* This one begins to wait for the lock of the other. */
void cycle_wait(struct cycle *cycle, int nth);

/* Both wait. Exactly one is refused, within `within_ms`, and the other one goes on. Releases all.
 */
void cycle_breaks(struct cycle *cycle, uint64_t within_ms);

#endif
