/*
 * Log - one line at a time, to the program's sink or to stderr
 *
 * What came from outside (lock names, server texts) is escaped, so that it can forge no line. A
 * line is only queued here, so writing one never blocks; its cause may be held back when it repeats
 * (repeats.h).
 *
 * Threads: any; under no mutex.
 */
#ifndef RELOCK_LOG_H
#define RELOCK_LOG_H

#include "base/repeats.h"

#include <relock.h>

struct relock_logger;

struct relock_log {
    int level; /* the least grave that is written */
    relock_log_fn *sink;
    void *arg;
    struct relock_logger *logger; /* its thread writes; NULL, in tests: the caller of the log */
};

/* The format, which must be a constant string, is the cause of the line. */
__attribute__((format(printf, 3, 4))) void relock_log_write(const struct relock_log *log, int level,
                                                            const char *format, ...);

/* The same for a format that serves several causes. */
__attribute__((format(printf, 4, 5))) void relock_log_cause(const struct relock_log *log,
                                                            struct relock_cause cause, int level,
                                                            const char *format, ...);

#define RELOCK_LOG_NAME_MAX 256

/* Writes `name` in printable ASCII, cut with "..." when long. Returns `out`. */
const char *relock_log_name(const char *name, char out[RELOCK_LOG_NAME_MAX]);

#endif
