/*
 * Args - the options that all commands share, and the forms of values
 *
 * A command passes getopt_long() its own options and ARGS_OPTIONS, and each letter that it does not
 * know to args_take().
 */
#ifndef RELOCK_TOOL_ARGS_H
#define RELOCK_TOOL_ARGS_H

#include "command.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

struct args {
    const struct command *command;
    const char *url;           /* NULL: RELOCK_URL, or the default of the library */
    const char *password_file; /* NULL: RELOCK_PASSWORD, or what the url says */
    bool is_json;
    bool is_verbose;
    bool tells_losses; /* the command itself says that a lock was lost */
};

enum { ARGS_URL = 256, ARGS_PASSWORD_FILE, ARGS_JSON, ARGS_OWN };

/* A leading '+' in the letters ends the options at the first word, which may be a command. */
#define ARGS_LETTERS "hu:v"
#define ARGS_JSON_OPTION                     \
    {                                        \
        "json", no_argument, NULL, ARGS_JSON \
    }
#define ARGS_OPTIONS                                                         \
    {"help", no_argument, NULL, 'h'}, {"url", required_argument, NULL, 'u'}, \
        {"password-file", required_argument, NULL, ARGS_PASSWORD_FILE},      \
        {"verbose", no_argument, NULL, 'v'},                                 \
    {                                                                        \
        NULL, 0, NULL, 0                                                     \
    }

/* Takes an option that all commands have. Prints the help and exits for --help, and exits with
 * STATUS_FAILED if the option is unknown. */
void args_take(struct args *args, int letter);

/* The longest name of a lock. */
#define ARGS_NAME_MAX 4096

/* Returns the name of a lock, or exits if no lock can have it. */
const char *args_name(const struct args *args, const char *text);

/* Returns the only word, a pattern; `*` if there is none. Exits if it is empty, as from a variable
 * that is not set, or not the only one. */
const char *args_pattern(const struct args *args, char *const *words);

/* Exits with STATUS_FAILED and a line that names the command and its --help. */
void args_refuse(const struct args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Reads `500ms`, `30s`, `5m`, `2h`, `1d`, or a number of seconds, into milliseconds. Refuses other
 * text, and more than ten years. */
uint64_t args_duration(const struct args *args, const char *option, const char *text);

/* Reads a number from 0 to `most`. */
unsigned args_number(const struct args *args, const char *option, const char *text, unsigned most);

/* The same as args_duration() for an interval that poll() can wait: a day at most. */
int args_interval(const struct args *args, const char *option, const char *text);

#endif
