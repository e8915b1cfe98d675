#include "machine.h"
#include "report.h"

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
    print_member("unit", line->unit, out);
    print_numbers(series_summary(&line->series), out);
    fputs(", \"rounds\": [", out);
    for (unsigned i = 0; i < line->series.n; i++)
        fprintf(out, "%s%.4f", i > 0 ? ", " : "", line->series.at[i]);
    fputs("]}", out);
}

static void print_check(const struct check *check, FILE *out)
{
    fputs("       {", out);
    print_member("line", check->line->id, out);
    if (check->against) {
        print_member("against", check->against->id, out);
        print_member("what", check->what, out);
    }
    print_numbers(check_summary(check), out);
    if (check->target.kind != NO_TARGET)
        fprintf(out, ", \"%s\": %g, \"reached\": %s",
                check->target.kind == AT_MOST ? "at_most" : "at_least", check->target.number,
                check_is_reached(check) ? "true" : "false");
    fputs("}", out);
}

static void print_result(const struct result *result, FILE *out)
{
    fputs("    {", out);
    print_member("id", result->id, out);
    print_member("title", result->title, out);
    print_member("note", result->note, out);
    fputs("\n     \"lines\": [\n", out);
    for (unsigned i = 0; i < result->n_lines; i++) {
        print_line(&result->lines[i], out);
        fputs(i + 1 < result->n_lines ? ",\n" : "\n", out);
    }
    fputs("     ],\n     \"checks\": [\n", out);
    for (unsigned i = 0; i < result->n_checks; i++) {
        print_check(&result->checks[i], out);
        fputs(i + 1 < result->n_checks ? ",\n" : "\n", out);
    }
    fputs("     ]}", out);
}

void report_json(const struct report *report, const struct machine *machine, FILE *out)
{
    fputs("{\"machine\": {", out);
    print_member("date", machine->date, out);
    print_member("cpu", machine->cpu, out);
    print_member("kernel", machine->kernel, out);
    print_member("server", machine->server, out);
    print_member("hiredis", machine->hiredis, out);
    print_member("compiler", machine->compiler, out);
    print_member("build", machine->build, out);
    fprintf(out, "\"cores\": %u, \"load\": %.2f},\n \"results\": [\n", machine->n_cores,
            machine->load);
    for (unsigned i = 0; i < report->n_results; i++) {
        print_result(&report->results[i], out);
        fputs(i + 1 < report->n_results ? ",\n" : "\n", out);
    }
    fputs(" ]}\n", out);
}
