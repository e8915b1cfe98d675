/*
 * Traffic - threads that take turns on one lock without a break
 *
 * For tests about waiters elsewhere: the threads leave the lock free only when the library does.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_TRAFFIC_H
#define RELOCK_TEST_TRAFFIC_H

#include "support/actor.h"

#include <stdatomic.h>

#define TRAFFIC_THREADS 8

struct traffic {
    struct relock_lock *lock;
    atomic_bool over;
    struct actor *actors[TRAFFIC_THREADS];
};

/* Returns when the client of the lock has been granted it more than once for each thread. */
void traffic_begin(struct traffic *traffic, struct relock_client *client, struct relock_lock *lock);

/* For ten rounds, this thread releases the lock while another waits for it as `how` says: each time
 * the lock is free for a moment, in which another process may acquire it. */
void traffic_assert_pauses(struct relock_client *client, struct relock_lock *lock,
                           const struct relock_how *how);

/* Each of the threads must have taken the lock without an error. */
void traffic_end(struct traffic *traffic);

#endif
