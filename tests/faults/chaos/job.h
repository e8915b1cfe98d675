/*
 * Job - a thread of a worker, and its attempts
 *
 * Its lock, the way of acquiring it and the length of the hold are drawn from its seed. It relies
 * only on relock_valid_ms(), stops when that is 0, and records each step. If it has orders to
 * ignore leases, it believes to hold the lock until it releases it.
 *
 * Threads: each toiler is one, but for toiler_cancel().
 */
#ifndef RELOCK_TEST_JOB_H
#define RELOCK_TEST_JOB_H

#include "history.h"
#include "names.h"
#include "toll.h"
#include "worker.h"

#include <pthread.h>
#include <stdatomic.h>

struct relock_cancel;
struct relock_lock;

/* Shared by all threads of a worker. */
struct workshop {
    struct worker_options options;
    struct names names;
    struct relock_lock *locks[NAMES_N];
    struct relock_lock *readers[NAMES_N]; /* the read side; NULL if there is none */
    struct history history;
    atomic_uint n_jobs;
};

struct toiler {
    struct workshop *workshop;
    int number;
    uint64_t seed;
    struct toll toll;
    pthread_mutex_t mutex;
    struct relock_cancel *cancel; /* for the wait that may be cancelled now; guarded by `mutex` */
};

/* Makes one attempt. Returns when all that it acquired is released. */
void toiler_come(struct toiler *toiler);

/* Cancels its wait, if it may be cancelled. Any thread. */
void toiler_cancel(struct toiler *toiler);

uint64_t toiler_dice(struct toiler *toiler, uint64_t n);

#endif
