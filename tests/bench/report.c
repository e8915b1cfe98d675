#include "report.h"

#include "machine.h"

#include <stdarg.h>
#include <string.h>

#define LABEL_WIDTH 66

/* ---- making it ----------------------------------------------------------------------------- */

struct result *report_add(struct report *report, const char *id, const char *title)
{
    struct result *result;

    if (report->n_results == RESULTS_MAX)
        die("more than %d results", RESULTS_MAX);
    result = &report->results[report->n_results++];
    snprintf(result->id, sizeof(result->id), "%s", id);
    snprintf(result->title, sizeof(result->title), "%s", title);
    return result;
}

struct series *result_add_line(struct result *result, const char *id, const char *what,
                               const char *unit)
{
    struct line *line;

    if (result->n_lines == LINES_MAX)
        die("more than %d lines", LINES_MAX);
    line = &result->lines[result->n_lines++];
    *line = (struct line){.id = id, .what = what, .unit = unit};
    return &line->series;
}

static void add_check(struct result *result, struct check check)
{
    if (result->n_checks == CHECKS_MAX)
        die("more than %d checks", CHECKS_MAX);
    result->checks[result->n_checks++] = check;
}

void result_add_ratio(struct result *result, const char *what, unsigned line, unsigned against,
                      enum target_kind kind, double target)
{
    add_check(result, (struct check){&result->lines[line], &result->lines[against], what,
                                     .target = {kind, target}});
}

void result_add_limit(struct result *result, unsigned line, enum target_kind kind, double target)
{
    add_check(result, (struct check){&result->lines[line], NULL, NULL, .target = {kind, target}});
}

void result_note(struct result *result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(result->note, sizeof(result->note), format, args);
    va_end(args);
}

/* ---- reading it ---------------------------------------------------------------------------- */

const struct line *result_line(const struct result *result, const char *id)
{
    for (unsigned i = 0; i < result->n_lines; i++)
        if (strcmp(result->lines[i].id, id) == 0)
            return &result->lines[i];
    return NULL;
}

struct summary check_summary(const struct check *check)
{
    struct series ratio;

    if (!check->against)
        return series_summary(&check->line->series);
    ratio = series_ratio(&check->line->series, &check->against->series);
    return series_summary(&ratio);
}

bool check_is_reached(const struct check *check)
{
    struct summary summary = check_summary(check);

    switch (check->target.kind) {
    case AT_MOST:
        return (check->against ? summary.median : summary.max) <= check->target.number;
    case AT_LEAST:
        return (check->against ? summary.median : summary.min) >= check->target.number;
    case NO_TARGET:
        break;
    }
    return true;
}

/* ---- text ---------------------------------------------------------------------------------- */

void report_machine_text(const struct machine *machine, FILE *out)
{
    fprintf(out, "%s, %u cores, load %.2f\n", machine->cpu, machine->n_cores, machine->load);
    fprintf(out, "%s, %s, hiredis %s, %s, %s\n", machine->kernel, machine->server, machine->hiredis,
            machine->compiler, machine->build);
}

static void print_summary(const char *what, struct summary summary, int digits, FILE *out)
{
    fprintf(out, "    %-*s %11.*f %11.*f %11.*f", LABEL_WIDTH - 4, what, digits, summary.median,
            digits, summary.min, digits, summary.max);
}

static int digits_for(double number)
{
    if (number >= 1000)
        return 0;
    return number >= 1 || number <= 0 ? 2 : 4;
}

static void print_target(const struct check *check, FILE *out)
{
    if (check->target.kind != NO_TARGET)
        fprintf(out, "  %s %g: %s",
                check->target.kind == AT_MOST ? "<=" : ">=", check->target.number,
                check_is_reached(check) ? "reached" : "MISSED");
}

static void print_line(const struct result *result, const struct line *line, FILE *out)
{
    struct summary summary = series_summary(&line->series);
    char what[LABEL_WIDTH];

    snprintf(what, sizeof(what), "%s, %s", line->what, line->unit);
    print_summary(what, summary, digits_for(summary.median), out);
    for (unsigned i = 0; i < result->n_checks; i++)
        if (result->checks[i].line == line && !result->checks[i].against)
            print_target(&result->checks[i], out);
    fputc('\n', out);
}

static void print_result(const struct result *result, FILE *out)
{
    fprintf(out, "\n%-*s", LABEL_WIDTH, result->title);
    if (result->n_lines > 0)
        fprintf(out, " %11s %11s %11s\n", "median", "min", "max");
    else
        fputs(" not measured\n", out);
    for (unsigned i = 0; i < result->n_lines; i++)
        print_line(result, &result->lines[i], out);
    for (unsigned i = 0; i < result->n_checks; i++) {
        const struct check *check = &result->checks[i];

        if (!check->against)
            continue;
        print_summary(check->what, check_summary(check), 3, out);
        print_target(check, out);
        fputc('\n', out);
    }
    if (result->note[0])
        fprintf(out, "    %s\n", result->note);
    fflush(out);
}

void report_show(struct report *report)
{
    while (report->n_shown < report->n_results)
        print_result(&report->results[report->n_shown++], report->table);
}
