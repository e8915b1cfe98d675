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
#ifndef RELOCK_LOGGER_H
#define RELOCK_LOGGER_H

#include <relock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELOCK_LINE_MAX 1024 /* of a line, its NUL included */

/* Where the lines go: to the program's function or to stderr. */
struct relock_sink {
    relock_log_fn *log;       /* the program's on_log, or NULL */
    relock_record_fn *record; /* the program's on_record, used instead of `log`; or NULL */
    void *arg;
};

/*
 * Writes one line. Without a function, errors and warnings go to stderr; other lines are dropped.
 * Both may block. Threads: that of a logger; in tests, which have none, any. Under no mutex.
 */
void relock_sink_write(const struct relock_sink *sink, const struct relock_record *record);

#define RELOCK_REPEATS_AT_ONCE 5
#define RELOCK_REPEATS_PERIOD_MS 10000

/* Why a line is logged, whichever lock it concerns. `what` is a constant string, compared by
 * address; `which` is a result or the like. So the number of causes is limited. */
struct relock_cause {
    const char *what;
    int which;
};

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
