/*
 * Sink - writes one log line to the program's function or to stderr
 *
 * Both belong to the program and may block, so only the thread of a logger calls this.
 *
 * Threads: that of a logger; in tests, which have none, any. Under no mutex.
 */
#ifndef RELOCK_SINK_H
#define RELOCK_SINK_H

#include <relock.h>

#define RELOCK_LINE_MAX 1024 /* of a line, its NUL included */

struct relock_sink {
    relock_log_fn *log;       /* the program's on_log, or NULL */
    relock_record_fn *record; /* the program's on_record, used instead of `log`; or NULL */
    void *arg;
};

/* Writes one line. Without a function, errors and warnings go to stderr; other lines are dropped.
 */
void relock_sink_write(const struct relock_sink *sink, const struct relock_record *record);

#endif
