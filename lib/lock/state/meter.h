/*
 * Meter - histograms of durations, counts of results, and the most contended names of a client
 *
 * The most contended names are found with a fixed number of counters ("space saving"): a name
 * without one takes over the lowest, and its count. So a count may be too high, never too low, and
 * the names that matter stay.
 *
 * Threads: guarded by the mutex of the client.
 */
#ifndef RELOCK_METER_H
#define RELOCK_METER_H

#include <relock.h>

#define RELOCK_METER_NAMES 32

struct relock_meter {
    struct relock_contended names[RELOCK_METER_NAMES]; /* of the first `n_names` */
    unsigned n_names;
    unsigned last; /* the one that was counted last */
};

/* Four buckets for each power of 2: see RELOCK_HISTOGRAM_FROM_US. */
static inline unsigned relock_meter_bucket(uint64_t us)
{
    unsigned exponent, i;

    if (us < 4)
        return (unsigned)us;
    exponent = 63 - (unsigned)__builtin_clzll(us);
    i = ((exponent - 1) << 2) | (unsigned)((us >> (exponent - 2)) & 3);
    return i < RELOCK_HISTOGRAM_BUCKETS ? i : RELOCK_HISTOGRAM_BUCKETS - 1;
}

static inline void relock_meter_add(struct relock_histogram *histogram, uint64_t us)
{
    histogram->count++;
    histogram->sum_us += us;
    histogram->buckets[relock_meter_bucket(us)]++;
}

/* Counts a call that ended with this result. */
static inline void relock_meter_end(uint64_t results[RELOCK_RESULTS], int result)
{
    if (result <= 0 && result > -RELOCK_RESULTS)
        results[-result]++;
}

/* An acquire of the lock `name` met another owner. */
void relock_meter_contend(struct relock_meter *meter, const char *name);

/* The names with the highest counts, the highest first; unused places are all 0. */
void relock_meter_top(const struct relock_meter *meter,
                      struct relock_contended top[RELOCK_CONTENDED_NAMES]);

#endif
