/*
 * Storm - random numbers, pauses, cancels and a length for stress tests
 *
 * RELOCK_STRESS_SECONDS sets how long a test lasts, RELOCK_STRESS_SEED where its random numbers
 * begin. A storm is a number of threads that wait, and one that cancels their waits at random.
 *
 * Threads: any; each has a seed of its own.
 */
#ifndef RELOCK_TEST_STORM_H
#define RELOCK_TEST_STORM_H

#include <relock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define STORM_MAX_WAITERS 16

/* From 0 to `n` - 1. */
unsigned storm_random(unsigned *seed, unsigned n);

/* Sleeps for less than `us` microseconds: the clock of the library is coarser. */
void storm_pause(unsigned *seed, unsigned us);

/* The length of the test, and the seed of its first storm. */
uint64_t storm_ms(unsigned long default_seconds);
unsigned storm_seed(void);

/* The cancels of the waits in progress. */
struct storm_cancels {
    unsigned n, seed, pause_us; /* waiters; of the thread that fires */
    atomic_int n_waiting;       /* waiters that are not done */
    struct {
        pthread_mutex_t mutex;
        struct relock_cancel *cancel; /* guarded by mutex; NULL while there is no wait */
    } of[STORM_MAX_WAITERS];
};

void storm_cancels_init(struct storm_cancels *cancels, unsigned n, unsigned pause_us);
void storm_cancels_deinit(struct storm_cancels *cancels);

/* Around a wait of the i-th waiter, with a cancel of its own. The first returns NULL without
 * memory. */
struct relock_cancel *storm_begin_wait(struct storm_cancels *cancels, unsigned i);
void storm_end_wait(struct storm_cancels *cancels, unsigned i);

/* A step: fires random cancels until no waiter is left. */
int storm_fire(void *cancels);

#endif
