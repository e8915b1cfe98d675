/*
 * Crowd - threads that do one thing again and again, and how often
 *
 * The count begins when every thread has done it once and ends before the first is told to stop, so
 * neither the start of threads nor their end is in it.
 *
 * Threads: the one that runs the crowd.
 */
#ifndef RELOCK_BENCH_CROWD_H
#define RELOCK_BENCH_CROWD_H

#include <stddef.h>
#include <stdint.h>

typedef void crowd_step_fn(void *arg);

struct crowd_count {
    double per_second; /* of all threads together */
    uint64_t steps;    /* from first to last, the uncounted ones too */
};

/* `args` is an array of `n_threads` objects of `arg_size`; a size of 0 gives all the same one. */
struct crowd_count crowd_run(unsigned n_threads, crowd_step_fn *step, void *args, size_t arg_size,
                             double seconds);

#endif
