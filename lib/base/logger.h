/*
 * Logger - a queue of log lines, and the thread that writes them
 *
 * A sink may block for as long as it likes: only this thread waits for it. Meanwhile lines are
 * queued; when the queue is full, new ones are dropped and counted, and the next line that is
 * written says how many.
 *
 * Threads: put and dropped from any, at any time before the end, under no mutex.
 */
#ifndef RELOCK_LOGGER_H
#define RELOCK_LOGGER_H

#include "base/repeats.h"

#include <relock.h>

#define RELOCK_LOGGER_QUEUE_MAX 256
#define RELOCK_LOGGER_END_MS 3000

struct relock_logger;

/* Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_logger_new(relock_log_fn *sink, void *arg, struct relock_logger **logger);

/* Queues one line, unless its cause has been logged too often lately. Does not block. */
void relock_logger_put(struct relock_logger *logger, struct relock_cause cause, int level,
                       const char *line);

/* Lines for which the queue had no room, so far. */
uint64_t relock_logger_dropped(const struct relock_logger *logger);

/*
 * Writes what is queued and what was held back, and ends. If the sink still blocks after
 * RELOCK_LOGGER_END_MS, the rest is dropped, and the thread is left to end when the sink returns.
 * Takes NULL; returns NULL.
 */
struct relock_logger *relock_logger_free(struct relock_logger *logger);

#endif
