#include "report.h"

#include "machine.h"

#define LABEL_WIDTH 52

struct result *report_add(struct report *report, const char *id, const char *unit,
                          enum better better, double target)
{
    struct result *result;

    if (report->n_results == RESULTS_MAX)
        die("more than %d results", RESULTS_MAX);
    result = &report->results[report->n_results++];
    *result = (struct result){.id = id, .unit = unit, .better = better, .target = target};
    return result;
}

void result_add_line(struct result *result, const char *id, const char *what)
{
    if (result->n_lines == LINES_MAX)
        die("more than %d lines", LINES_MAX);
    result->lines[result->n_lines++] = (struct line){.id = id, .what = what};
}

static struct summary ratio_of(const struct result *result)
{
    struct series ratio = series_ratio(&result->lines[0].series, &result->lines[1].series);

    return series_summary(&ratio);
}

static bool is_reached(const struct result *result)
{
    double ratio = ratio_of(result).median;

    return result->better == LOWER_IS_BETTER ? ratio <= result->target : ratio >= result->target;
}

/* ---- text ---------------------------------------------------------------------------------- */

void report_machine_text(const struct machine *machine, FILE *out)
{
    fprintf(out, "%s, %u cores, load %.2f\n", machine->cpu, machine->n_cores, machine->load);
    fprintf(out, "%s, %s, hiredis %s, %s\n", machine->kernel, machine->server, machine->hiredis,
            machine->build);
}

static void print_summary(const char *what, struct summary summary, int digits, FILE *out)
{
    fprintf(out, "    %-*s %11.*f %11.*f %11.*f", LABEL_WIDTH - 4, what, digits, summary.median,
            digits, summary.min, digits, summary.max);
}

void result_text(const struct result *result, FILE *out)
{
    fprintf(out, "\n%-*s %11s %11s %11s\n", LABEL_WIDTH, result->title, "median", "min", "max");
    for (unsigned i = 0; i < result->n_lines; i++) {
        struct summary summary;
        char what[LABEL_WIDTH];

        snprintf(what, sizeof(what), "%s, %s", result->lines[i].what, result->unit);
        summary = series_summary(&result->lines[i].series);
        print_summary(what, summary, summary.median < 1000 ? 2 : 0, out);
        fputc('\n', out);
        if (i == 1) {
            print_summary("ratio of these two", ratio_of(result), 3, out);
            fprintf(out, "  %s %.2f: %s\n",
                    result->better == LOWER_IS_BETTER ? "<=" : ">=", result->target,
                    is_reached(result) ? "reached" : "MISSED");
        }
    }
    if (result->note[0])
        fprintf(out, "    %s\n", result->note);
    fflush(out);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void print_string(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if ((unsigned char)*text >= ' ')
            fputc(*text, out);
    }
    fputc('"', out);
}

static void print_member(const char *key, const char *text, FILE *out)
{
    fprintf(out, "\"%s\": ", key);
    print_string(text, out);
    fputs(", ", out);
}

static void print_numbers(struct summary summary, FILE *out)
{
    fprintf(out, "\"median\": %.4f, \"min\": %.4f, \"max\": %.4f", summary.median, summary.min,
            summary.max);
}

static void print_line(const struct line *line, FILE *out)
{
    fputs("       {", out);
    print_member("id", line->id, out);
    print_member("what", line->what, out);
    print_numbers(series_summary(&line->series), out);
    fputs(", \"rounds\": [", out);
    for (unsigned i = 0; i < line->series.n; i++)
        fprintf(out, "%s%.4f", i > 0 ? ", " : "", line->series.at[i]);
    fputs("]}", out);
}

static void print_result(const struct result *result, FILE *out)
{
    fputs("    {", out);
    print_member("id", result->id, out);
    print_member("title", result->title, out);
    print_member("unit", result->unit, out);
    print_member("note", result->note, out);
    fputs("\n     \"ratio\": {", out);
    print_numbers(ratio_of(result), out);
    fprintf(out, ", \"%s\": %.2f, \"reached\": %s},\n     \"lines\": [\n",
            result->better == LOWER_IS_BETTER ? "at_most" : "at_least", result->target,
            is_reached(result) ? "true" : "false");
    for (unsigned i = 0; i < result->n_lines; i++) {
        print_line(&result->lines[i], out);
        fputs(i + 1 < result->n_lines ? ",\n" : "\n     ]}", out);
    }
}

void report_json(const struct report *report, const struct machine *machine, FILE *out)
{
    fputs("{\"machine\": {", out);
    print_member("cpu", machine->cpu, out);
    print_member("kernel", machine->kernel, out);
    print_member("server", machine->server, out);
    print_member("hiredis", machine->hiredis, out);
    print_member("build", machine->build, out);
    fprintf(out, "\"cores\": %u, \"load\": %.2f},\n \"results\": [\n", machine->n_cores,
            machine->load);
    for (unsigned i = 0; i < report->n_results; i++) {
        print_result(&report->results[i], out);
        fputs(i + 1 < report->n_results ? ",\n" : "\n", out);
    }
    fputs(" ]}\n", out);
}
