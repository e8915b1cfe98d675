/*
 * Sink - writes one log line to the program's function or to stderr
 *
 * Both belong to the program and may block, so only the thread of a logger calls this.
 *
 * Threads: any; under no mutex.
 */
#ifndef RELOCK_SINK_H
#define RELOCK_SINK_H

#include <relock.h>

#define RELOCK_LINE_MAX 1024 /* of a line, its NUL included */

/* Writes one line. If `fn` is NULL, errors and warnings go to stderr; other lines are dropped. */
void relock_sink_write(relock_log_fn *fn, void *arg, int level, const char *line);

#endif
