#include "report.h"

#include "must.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cell {
    char *text; /* for people */
    char *json;
    enum colour colour;
};

struct report {
    const struct column *columns;
    size_t n_columns;
    bool is_json;
    struct cell *cells;
    size_t n_cells, size;
};

struct report *report_new(const struct column *columns, bool is_json)
{
    struct report *report = must(calloc(1, sizeof(*report)));

    report->columns = columns;
    report->is_json = is_json;
    while (columns[report->n_columns].title)
        report->n_columns++;
    return report;
}

void report_free(struct report *report)
{
    for (size_t i = 0; i < report->n_cells; i++) {
        free(report->cells[i].text);
        free(report->cells[i].json);
    }
    free(report->cells);
    free(report);
}

static void add(struct report *report, char *text, enum colour colour, char *json)
{
    if (report->n_cells == report->size) {
        report->size = report->size ? 2 * report->size : 64;
        report->cells = must(realloc(report->cells, report->size * sizeof(*report->cells)));
    }
    report->cells[report->n_cells++] = (struct cell){must(text), must(json), colour};
}

void report_text(struct report *report, const char *text, enum colour colour)
{
    if (text)
        add(report, text_escape(text), colour, text_json(text));
    else
        report_both(report, "-", COLOUR_NONE, "null");
}

void report_both(struct report *report, const char *text, enum colour colour, const char *json)
{
    add(report, text_escape(text), colour, strdup(json));
}

void report_said(struct report *report, const char *text, enum colour colour, const char *word)
{
    add(report, text_escape(text), colour, text_json(word));
}

void report_number(struct report *report, int64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    report_both(report, text, COLOUR_NONE, text);
}

void report_ms(struct report *report, int64_t ms)
{
    char text[32], json[24];

    (void)snprintf(json, sizeof(json), "%lld", (long long)ms);
    if (ms < 0)
        (void)snprintf(text, sizeof(text), "-");
    else if (ms < 100000)
        (void)snprintf(text, sizeof(text), "%.1fs", (double)ms / 1000);
    else
        (void)snprintf(text, sizeof(text), "%lldm%02llds", (long long)ms / 60000,
                       (long long)ms / 1000 % 60);
    report_both(report, text, COLOUR_NONE, ms < 0 ? "null" : json);
}

/* ---- output -------------------------------------------------------------------------------- */

bool report_has_colours(void)
{
    const char *no_colour = getenv("NO_COLOR");

    return isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
}

static const char *title_of(const struct report *report, size_t row, size_t column)
{
    return row == 0 ? report->columns[column].title
                    : report->cells[(row - 1) * report->n_columns + column].text;
}

/* `*gap`: the blanks before the next text of the line; none stand at its end. */
static void print_cell(const char *text, size_t width, const char *colour, size_t *gap)
{
    size_t shown = text_width(text);

    if (*text) {
        (void)printf("%*s%s%s%s", (int)*gap, "", colour, text, *colour ? "\033[0m" : "");
        *gap = 0;
    }
    *gap += shown < width ? width - shown : 0;
}

static void print_table(const struct report *report)
{
    static const char *const colours[] = {"", "\033[32m", "\033[33m", "\033[31m"};
    size_t n = report->n_columns, n_rows = report->n_cells / n + 1;
    bool is_coloured = report_has_colours();
    size_t *widths = must(calloc(n, sizeof(*widths)));

    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; i + 1 < n; i++)
            if (*report->columns[i].title && text_width(title_of(report, row, i)) + 2 > widths[i])
                widths[i] = text_width(title_of(report, row, i)) + 2;
    for (size_t row = 0; row < n_rows; row++) {
        size_t gap = 0;

        for (size_t i = 0; i < n; i++) {
            enum colour colour = row == 0 ? COLOUR_NONE : report->cells[(row - 1) * n + i].colour;
            const char *start = row == 0 ? "\033[1m" : colours[colour];

            if (!*report->columns[i].title)
                continue;
            print_cell(title_of(report, row, i), widths[i], is_coloured ? start : "", &gap);
        }
        (void)putchar('\n');
    }
    free(widths);
}

static void print_object(FILE *out, const struct report *report, size_t row)
{
    for (size_t i = 0; i < report->n_columns; i++)
        (void)fprintf(out, "%s\"%s\": %s", i == 0 ? "{" : ", ", report->columns[i].key,
                      report->cells[row * report->n_columns + i].json);
    (void)putc('}', out);
}

static void print_array(FILE *out, const struct report *report, const char *between)
{
    size_t n_rows = report->n_cells / report->n_columns;

    (void)putc('[', out);
    for (size_t row = 0; row < n_rows; row++) {
        print_object(out, report, row);
        (void)fputs(row + 1 < n_rows ? between : "", out);
    }
    (void)putc(']', out);
}

static void print_lines(const struct report *report)
{
    for (size_t row = 0; row < report->n_cells / report->n_columns; row++) {
        print_object(stdout, report, row);
        (void)putchar('\n');
    }
}

void report_rows(struct report *report, const struct report *rows)
{
    char *json = NULL;
    size_t len;
    FILE *out = must(open_memstream(&json, &len));

    print_array(out, rows, ", ");
    (void)fclose(out);
    add(report, strdup("-"), COLOUR_NONE, json);
}

bool report_print(const struct report *report, bool is_line)
{
    if (report->is_json && is_line) {
        print_lines(report);
    } else if (report->is_json) {
        print_array(stdout, report, ",\n ");
        (void)putchar('\n');
    } else {
        print_table(report);
    }
    return fflush(stdout) == 0 && !ferror(stdout);
}
