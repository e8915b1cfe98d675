/*
 * Private - what the files of lib/base share, and nobody else
 */
#ifndef RELOCK_BASE_PRIVATE_H
#define RELOCK_BASE_PRIVATE_H

#include "base/log.h"

#include <relock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_logger;
struct relock_repeated;

/* ---- logger ---------------------------------------------------------------------------------- */

/*
 * Logger - a queue of log lines, and the thread that writes them
 *
 * The program's function, or stderr, may block for any length of time: only this thread waits for
 * it. Meanwhile lines are queued. When the queue is full, new lines are dropped and counted, and
 * the next line that is written is preceded by their number.
 *
 * A cause that repeats does not fill the log. The first few lines of it are written. Later lines
 * are held back and counted; at the end of each period the latest of them is written with their
 * number. After a period without lines the cause starts anew.
 *
 * Threads: put and dropped from any, until free begins, under no mutex.
 */

#define RELOCK_LINE_MAX 1024 /* of a line, its NUL included */

/*
 * Writes one line. Without a function, errors and warnings go to stderr; other lines are dropped.
 * Both may block. Threads: that of a logger; in tests, which have none, any. Under no mutex.
 */
void relock_sink_write(const struct relock_sink *sink, const struct relock_record *record);

#define RELOCK_REPEATS_AT_ONCE 5
#define RELOCK_REPEATS_PERIOD_MS 10000

/* The lines held back. Threads: any, under a mutex of the owner. */
struct relock_repeats {
    struct relock_repeated *causes;
};

/* Returns whether the line is to be written now. If not, it is held back. */
bool relock_repeats_admit(struct relock_repeats *repeats, struct relock_cause cause, int level,
                          const char *line, uint64_t now_ms);

/*
 * Takes the lines held back of one cause whose period is over, or, with `end`, of any cause. Writes
 * the latest of them to `line`, with their number. Returns false if there is none.
 */
bool relock_repeats_take(struct relock_repeats *repeats, uint64_t now_ms, bool end, int *level,
                         char *line, size_t size);

/* When the next line can be taken; RELOCK_NEVER if none is held back. */
uint64_t relock_repeats_next_ms(const struct relock_repeats *repeats);

void relock_repeats_deinit(struct relock_repeats *repeats);

#define RELOCK_LOGGER_QUEUE_MAX 256
#define RELOCK_LOGGER_END_MS 3000

/* Queues a copy of one line, unless its cause has been logged too often lately. Does not block. */
void relock_logger_put(struct relock_logger *logger, struct relock_cause cause,
                       const struct relock_record *record);

#endif
