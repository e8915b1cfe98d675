/*
 * Log - one line at a time, to the program's sink or to stderr
 *
 * What came from outside (lock names, server texts) is escaped, so that it can forge no line.
 *
 * Threads: any; under no mutex, for the sink is the program's.
 */
#ifndef RELOCK_LOG_H
#define RELOCK_LOG_H

#include <relock.h>

struct relock_log {
    int level; /* the least grave that is written */
    relock_log_fn *sink;
    void *arg;
};

__attribute__((format(printf, 3, 4))) void relock_log_write(const struct relock_log *log, int level,
                                                            const char *format, ...);

#define RELOCK_LOG_NAME_MAX 256

/* Writes `name` in printable ASCII, cut with "..." when long. Returns `out`. */
const char *relock_log_name(const char *name, char out[RELOCK_LOG_NAME_MAX]);

#endif
