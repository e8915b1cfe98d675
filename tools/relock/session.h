/* Session - the client of the tool, from its options and its environment */
#ifndef RELOCK_TOOL_SESSION_H
#define RELOCK_TOOL_SESSION_H

#include "args.h"

#include <relock.h>

/* The type of relock_lock_new and those for other kinds. */
typedef int constructor_fn(struct relock_client *client, const char *name,
                           struct relock_lock **lock);

/* More of a log line is cut off. */
#define SESSION_LINE_MAX 2048

/* Writes a log line of the library, in which the tool's options and variables stand in place of the
 * library's options. Names of locks stay as they are. */
void session_words(const struct relock_record *record, char out[SESSION_LINE_MAX]);

/* Prints a log line of the library on stderr. */
void session_print(const struct relock_record *record, const struct args *args);

/* Sets the fields of `options` that come from `args` and from the environment, and those for the
 * log, unless they are set. Exits with STATUS_FAILED if one is wrong. */
void session_read(const struct args *args, struct relock_options *options);

/* Makes a client, which may use `args` as long as it lives. Fields of `options` that are set stay,
 * the others come from `args` and from the environment. Exits with STATUS_FAILED if that fails; the
 * library has logged why. */
struct relock_client *session_open(const struct args *args, const struct relock_options *options);

/* The same, and returns as relock_client_new. */
int session_try(const struct args *args, const struct relock_options *options,
                struct relock_client **client);

/* Prints "relock NAME: what: text of the result" on stderr, and returns STATUS_FAILED. */
int session_fail(const struct args *args, const char *what, int result);

#endif
