/*
 * Sink - where a line of log ends: the program's function, or stderr
 *
 * Both belong to the program and may block, so only the thread of a logger writes there.
 *
 * Threads: any; under no mutex.
 */
#ifndef RELOCK_SINK_H
#define RELOCK_SINK_H

#include <relock.h>

#define RELOCK_LINE_MAX 1024 /* room for a line and its end */

/* Writes one line. Without a function it goes to stderr, if it is a warning or an error. */
void relock_sink_write(relock_log_fn *fn, void *arg, int level, const char *line);

#endif
