/* Session - the client of the tool, from its options and its environment */
#ifndef RELOCK_TOOL_SESSION_H
#define RELOCK_TOOL_SESSION_H

#include "args.h"

#include <relock.h>

/* Makes a client. Fields of `options` that are set stay, the others come from `args` and from the
 * environment. Exits with STATUS_FAILED if that fails; the library has logged why. */
struct relock_client *session_open(const struct args *args, const struct relock_options *options);

/* The same, and returns as relock_client_new. */
int session_try(const struct args *args, const struct relock_options *options,
                struct relock_client **client);

/* Prints "relock NAME: what: text of the result" on stderr, and returns STATUS_FAILED. */
int session_fail(const struct args *args, const char *what, int result);

#endif
