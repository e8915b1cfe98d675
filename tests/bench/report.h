/*
 * Report - what was measured, as a table for people or as JSON
 *
 * A result has a few lines, each with one number per round. The first is ours and the second its
 * bare counterpart; their ratio is what has a target. Further lines only help to understand it.
 *
 * Threads: one.
 */
#ifndef RELOCK_BENCH_REPORT_H
#define RELOCK_BENCH_REPORT_H

#include "measure.h"

#include <stdbool.h>
#include <stdio.h>

#define LINES_MAX 6
#define RESULTS_MAX 16

struct machine;

enum better {
    LOWER_IS_BETTER,
    HIGHER_IS_BETTER,
};

struct line {
    const char *id; /* in JSON */
    const char *what;
    struct series series;
};

struct result {
    const char *id; /* in JSON */
    char title[96];
    const char *unit;
    enum better better;
    double target; /* of the ratio: at most, or at least when higher is better */
    struct line lines[LINES_MAX];
    unsigned n_lines;
    char note[128];
};

struct report {
    struct result results[RESULTS_MAX];
    unsigned n_results;
};

/* The result is filled in by whoever adds it. */
struct result *report_add(struct report *report, const char *id, const char *unit,
                          enum better better, double target);

/* One more line; its place in `lines` is the number of those before it. */
void result_add_line(struct result *result, const char *id, const char *what);

void report_machine_text(const struct machine *machine, FILE *out);
void result_text(const struct result *result, FILE *out);
void report_json(const struct report *report, const struct machine *machine, FILE *out);

#endif
