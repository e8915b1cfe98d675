/*
 * Pairs - lock and unlock by one thread, by the library and by a bare connection in turns
 *
 * Threads: one.
 */
#ifndef RELOCK_BENCH_PAIRS_H
#define RELOCK_BENCH_PAIRS_H

#include "rows.h"

typedef void pair_fn(void *arg);

struct pair_side {
    pair_fn *run; /* one lock and unlock */
    void *arg;
};

/* Adds the lines relock_p50, bare_p50, relock_p99 and bare_p99 to an empty result, and the ratio of
 * the first two. */
void pairs_measure(const struct plan *plan, struct result *result, const char *bare_what,
                   struct pair_side ours, struct pair_side bare);

/* A side: `arg` is a struct relock_lock. */
void pair_ours(void *lock);

#endif
