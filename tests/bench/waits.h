/*
 * Waits - how long calls waited for a contended lock: a histogram of all processes
 *
 * A call that begins before the measurement or lasts until its end counts with the part inside. So
 * a process that never gets the lock has waited, too.
 *
 * Threads: any may call waits_add(), and one thread the other functions.
 * Memory that processes share may contain this.
 */
#ifndef RELOCK_BENCH_WAITS_H
#define RELOCK_BENCH_WAITS_H

#include <stdatomic.h>
#include <stdint.h>

#define WAITS_PARTS_LOG 6
#define WAITS_PARTS                                                              \
    (1 << WAITS_PARTS_LOG) /* of each power of two: a time is right within 1.6 % \
                            */

/* Empty when zeroed. */
struct waits {
    atomic_uint_fast64_t from_ns, to_ns; /* of the measurement; 0: not yet */
    atomic_uint_fast64_t n[(64 - WAITS_PARTS_LOG + 1) * WAITS_PARTS];
};

/* A call waited from one time of now_ns() to another. */
void waits_add(struct waits *waits, uint64_t from_ns, uint64_t to_ns);

/* The measurement begins, and ends. */
void waits_begin(struct waits *waits, uint64_t now_ns);
void waits_end(struct waits *waits, uint64_t now_ns);

/* So many per cent of all calls waited no longer, in microseconds. 0 without any call. */
double waits_percentile_us(struct waits *waits, double percent);

#endif
