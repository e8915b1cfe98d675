/*
 * Reactor - an event loop in a test, for asynchronous calls
 *
 * It waits for the descriptor of a queue and dispatches, until what the test expects has happened.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_REACTOR_H
#define RELOCK_TEST_REACTOR_H

#include <relock.h>

#include <stdbool.h>
#include <stdint.h>

#define REACTOR_NOTHING INT32_MIN /* the callback has not run */

/* The end of a call. */
struct outcome {
    int result; /* REACTOR_NOTHING until then */
    struct relock_grant grant;
    unsigned n_times; /* it was called */
    uint64_t order;   /* among all callbacks, from 1 */
};

#define OUTCOME ((struct outcome){.result = REACTOR_NOTHING})

/* The callbacks: `arg` is the outcome. */
void outcome_acquired(int result, const struct relock_grant *grant, void *arg);
void outcome_released(int result, void *arg);

/* Begin a call; the outcome is set to REACTOR_NOTHING before. */
int outcome_acquire(struct relock_lock *lock, const struct relock_how *how,
                    struct relock_events *events, struct outcome *outcome);
int outcome_release(struct relock_lock *lock, uint64_t owner, struct relock_events *events,
                    struct outcome *outcome);

/* Whether the descriptor is readable now. */
bool reactor_is_due(struct relock_events *events);

/* Dispatches until the callback has run. Returns its result; REACTOR_NOTHING if it does not run
 * in time. */
int reactor_await(struct relock_events *events, const struct outcome *outcome);

/* The same until this is true. */
typedef bool reactor_predicate_fn(void *arg);
bool reactor_run_until(struct relock_events *events, reactor_predicate_fn *predicate, void *arg);

/* A call, from its beginning to its end. */
int reactor_acquire(struct relock_lock *lock, const struct relock_how *how,
                    struct relock_events *events, uint64_t *owner);
int reactor_release(struct relock_lock *lock, uint64_t owner, struct relock_events *events);

/* A queue of this client, which the test frees. */
struct relock_events *reactor_events(struct relock_client *client);

#endif
