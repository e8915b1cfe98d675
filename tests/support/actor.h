/*
 * Actor - a thread that does one step at a time on request
 *
 * Tests about several threads read as one script: the main thread gives orders to actors, goes on
 * while a step waits, and asserts on results. `actor_begin_x` starts a step and returns;
 * actor_result() waits for it; `actor_x` does both.
 *
 * Threads: steps are begun and awaited by the main one.
 */
#ifndef RELOCK_TEST_ACTOR_H
#define RELOCK_TEST_ACTOR_H

#include <relock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACTOR_BUSY INT32_MIN /* the step did not end in time */

struct actor;

typedef int actor_step_fn(void *arg);

struct actor *actor_start(void);

void actor_begin(struct actor *actor, actor_step_fn *step, void *arg);

/* `n` actors, started here, each of which begins this step. */
void actors_begin(struct actor **actors, size_t n, actor_step_fn *step, void *arg);

/* The result of the step, or ACTOR_BUSY if it does not end within SOON_MS. */
int actor_result(struct actor *actor);
int actor_result_within(struct actor *actor, uint64_t within_ms);

/* Whether the step goes on. */
bool actor_is_busy(struct actor *actor);

/* How long the last step took. */
uint64_t actor_took_ms(struct actor *actor);

/* When it ended, on the clock of now_ms(). */
uint64_t actor_ended_ms(struct actor *actor);

/* Ends the thread and frees. Waits for the present step. */
void actor_end(struct actor *actor);

/* Ends all that were not ended. A step that never ends hangs the test until its time is over. */
void actor_end_all(void);

/* A step: takes the lock `arg`, and releases it. */
int actor_take_turn(void *arg);

/* `n` turns, one after the other. */
void actor_begin_turns(struct actor *actor, struct relock_lock *lock, int n);

void actor_begin_lock(struct actor *actor, struct relock_lock *lock);
void actors_begin_lock(struct actor **actors, size_t n, struct relock_lock *lock);
void actor_begin_timedlock(struct actor *actor, struct relock_lock *lock, int64_t wait_ms);
void actor_begin_acquire(struct actor *actor, struct relock_lock *lock,
                         const struct relock_how *how);

int actor_lock(struct actor *actor, struct relock_lock *lock);
int actor_trylock(struct actor *actor, struct relock_lock *lock);
int actor_timedlock(struct actor *actor, struct relock_lock *lock, int64_t wait_ms);
/* As fixture_timedlock(). */
int actor_wait_out(struct actor *actor, struct relock_lock *lock, int64_t wait_ms);
int actor_acquire(struct actor *actor, struct relock_lock *lock, const struct relock_how *how);
int actor_unlock(struct actor *actor, struct relock_lock *lock);
int actor_check(struct actor *actor, struct relock_lock *lock);

/* The grant of the last acquire or check. */
struct relock_grant actor_grant(struct actor *actor);

#endif
