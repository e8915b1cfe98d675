/*
 * Crowd - threads that repeat one step, and count how often
 *
 * The count begins when every thread has taken one step, and ends before the first is told to stop.
 * So it contains neither the start of threads nor their end.
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
    uint64_t steps;    /* all steps, the uncounted ones too */
};

/* `args` is an array of `n_threads` objects of `arg_size`; with size 0, all threads share one
 * object. */
struct crowd_count crowd_run(unsigned n_threads, crowd_step_fn *step, void *args, size_t arg_size,
                             double seconds);

#endif
