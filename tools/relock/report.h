/*
 * Report - rows for people or for programs
 *
 * People get a table, in colours if stdout is a terminal and NO_COLOR is not set. Programs get JSON
 * (--json), an array of objects. A name may have any bytes: both forms escape what is not text.
 */
#ifndef RELOCK_TOOL_REPORT_H
#define RELOCK_TOOL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_NOTE, COLOUR_BAD };

struct column {
    const char *title; /* in the table; "": only programs get it */
    const char *key;   /* in JSON */
};

struct report;

/* The columns end with a NULL title. Ends the program when out of memory, as all that follow. */
struct report *report_new(const struct column *columns, bool is_json);
void report_free(struct report *report);

/* The next cell, from left to right and row by row. NULL: none. */
void report_text(struct report *report, const char *text, enum colour colour);
void report_number(struct report *report, int64_t number);

/* A text for people, and another value for programs: JSON as it is. */
void report_both(struct report *report, const char *text, enum colour colour, const char *json);

/* A text for people, and a plain word for programs. */
void report_said(struct report *report, const char *text, enum colour colour, const char *word);

/* For programs, all rows of another report for them, as an array in one cell. */
void report_rows(struct report *report, const struct report *rows);

/* Milliseconds; below 0: none. */
void report_ms(struct report *report, int64_t ms);

/* Prints all rows, and flushes. `is_line`: in JSON, each object is a line of its own, without an
 * array. False if stdout cannot take them. */
bool report_print(const struct report *report, bool is_line);

/* Whether to use colours. */
bool report_has_colours(void);

#endif
