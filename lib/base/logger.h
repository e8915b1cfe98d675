/*
 * Logger - a queue of log lines, and the thread that writes them
 *
 * The program's function, or stderr, may block for any length of time: only this thread waits for
 * it. Meanwhile lines are queued. When the queue is full, new lines are dropped and counted, and
 * the next line that is written is preceded by their number.
 *
 * Threads: put and dropped from any, until free begins, under no mutex.
 */
#ifndef RELOCK_LOGGER_H
#define RELOCK_LOGGER_H

#include "base/repeats.h"
#include "base/sink.h"

#include <relock.h>

#define RELOCK_LOGGER_QUEUE_MAX 256
#define RELOCK_LOGGER_END_MS 3000

struct relock_logger;

/* Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_logger_new(const struct relock_sink *sink, struct relock_logger **logger);

/* Queues a copy of one line, unless its cause has been logged too often lately. Does not block. */
void relock_logger_put(struct relock_logger *logger, struct relock_cause cause,
                       const struct relock_record *record);

/* How many lines were dropped so far. */
uint64_t relock_logger_dropped(const struct relock_logger *logger);

/*
 * Writes the queued lines and those held back, then ends the thread. If the sink still blocks after
 * RELOCK_LOGGER_END_MS, the remaining lines are dropped, and the thread frees the logger when the
 * sink returns. Takes NULL; returns NULL.
 */
struct relock_logger *relock_logger_free(struct relock_logger *logger);

#endif
