/*
 * Report - the results, as a table for people or as JSON
 *
 * A result has a few lines, each with one number per round, and checks. A ratio compares two lines
 * round by round, because both ran side by side; the target is for the median of the ratios. A
 * limit is for a single line of counts, and applies to its worst round.
 *
 * Threads: one.
 */
#ifndef RELOCK_BENCH_REPORT_H
#define RELOCK_BENCH_REPORT_H

#include "measure.h"

#include <stdbool.h>
#include <stdio.h>

#define LINES_MAX 24
#define CHECKS_MAX 16
#define RESULTS_MAX 192

struct machine;

enum target_kind {
    NO_TARGET, /* worth printing */
    AT_MOST,
    AT_LEAST,
};

struct target {
    enum target_kind kind;
    double number;
};

struct line {
    const char *id; /* the name in JSON */
    const char *what;
    const char *unit;
    struct series series;
};

struct check {
    const struct line *line;
    const struct line *against; /* NULL: a limit */
    const char *what;           /* the denominator of a ratio */
    struct target target;
};

struct result {
    char id[32]; /* the name in JSON */
    char title[112];
    struct line lines[LINES_MAX];
    unsigned n_lines;
    struct check checks[CHECKS_MAX];
    unsigned n_checks;
    char note[192]; /* if there are no lines: why it was not measured */
};

struct report {
    FILE *table;
    struct result results[RESULTS_MAX];
    unsigned n_results;
    unsigned n_shown;
};

/* `id` and `title` are copied. */
struct result *report_add(struct report *report, const char *id, const char *title);

/* Texts that are passed to these must live as long as the report. */
struct series *result_add_line(struct result *result, const char *id, const char *what,
                               const char *unit);
void result_add_ratio(struct result *result, const char *what, unsigned line, unsigned against,
                      enum target_kind kind, double target);
void result_add_limit(struct result *result, unsigned line, enum target_kind kind, double target);

void result_note(struct result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The line of that name, or NULL. */
const struct line *result_line(const struct result *result, const char *id);

struct summary check_summary(const struct check *check);
bool check_is_reached(const struct check *check);

void report_machine_text(const struct machine *machine, FILE *out);

/* Prints the results that were not printed yet. */
void report_show(struct report *report);

/* In report_json.c. */
void report_json(const struct report *report, const struct machine *machine, FILE *out);

#endif
