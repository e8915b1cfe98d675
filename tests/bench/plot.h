/*
 * Plot - throughput and latency over the number of threads, as an SVG
 *
 * Threads: one.
 */
#ifndef RELOCK_BENCH_PLOT_H
#define RELOCK_BENCH_PLOT_H

struct machine;
struct report;

#define PLOT_ROW "own_locks"

/* Draws the results of this row, which must have run. */
void plot_threads(const struct report *report, const struct machine *machine, const char *path);

#endif
