/*
 * Measure - times, and their statistics
 *
 * Samples are single times, of which a round keeps one or two percentiles. A series is one number
 * per round. Running out of memory ends the program.
 *
 * Threads: one at a time for each object.
 */
#ifndef RELOCK_BENCH_MEASURE_H
#define RELOCK_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#define ROUNDS_MAX 100

/* Nanoseconds on the monotonic clock, which all processes share. */
uint64_t now_ns(void);
uint64_t seconds_to_ns(double seconds);
void sleep_ns(uint64_t ns);
void sleep_until_ns(uint64_t until_ns);

/* Empty when zeroed. */
struct samples {
    uint64_t *ns;
    size_t n;
    size_t size;
};

void samples_add(struct samples *samples, uint64_t ns);
void samples_add_all(struct samples *samples, const struct samples *others);
void samples_clear(struct samples *samples);
void samples_free(struct samples *samples);

/* In microseconds. Sorts the samples; there must be some. */
double samples_percentile_us(struct samples *samples, double percent);

/* Empty when zeroed. */
struct series {
    double at[ROUNDS_MAX];
    unsigned n;
};

/* The columns of a series in the table. */
struct summary {
    double median;
    double min;
    double max;
};

void series_add(struct series *series, double value);
struct summary series_summary(const struct series *series);

/* The quotients round by round: both ran side by side. 0 where one has no value. */
struct series series_ratio(const struct series *ours, const struct series *bare);

/* Prints the reason and ends the program with failure. Any thread may call it. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
