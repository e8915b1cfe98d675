/*
 * Job - the threads of a worker, and how each comes for a lock
 *
 * For which lock it comes, in which way and for how long is drawn from its seed. It believes
 * only relock_valid_ms(), stops when that is 0, and writes down each step; unless it has orders
 * to ignore leases: then it believes to hold the lock until it releases it.
 *
 * Threads: each toiler is one, but for toiler_cancel().
 */
#ifndef RELOCK_TEST_JOB_H
#define RELOCK_TEST_JOB_H

#include "history.h"
#include "names.h"
#include "worker.h"

#include <pthread.h>
#include <stdatomic.h>

struct relock_cancel;
struct relock_lock;

/* What all threads of a worker share. */
struct workshop {
    struct worker_options options;
    struct names names;
    struct relock_lock *locks[NAMES_N];
    struct relock_lock *readers[NAMES_N]; /* the read side; NULL where there is none */
    struct history history;
    atomic_uint n_jobs;
};

struct toiler {
    struct workshop *workshop;
    int number;
    uint64_t seed;
    pthread_mutex_t mutex;
    struct relock_cancel *cancel; /* of the wait that may be cancelled now; guarded by mutex */
};

/* Comes once, and stays until it has given up what it got. */
void toiler_come(struct toiler *toiler);

/* Ends its wait, if it is one that may be cancelled. Any thread. */
void toiler_cancel(struct toiler *toiler);

uint64_t toiler_dice(struct toiler *toiler, uint64_t n);

#endif
