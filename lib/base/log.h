/*
 * Log - writes log lines to the program's function or to stderr
 *
 * Text from outside (lock names, server errors) is escaped, so that it cannot forge a line. Writing
 * only queues a line and never blocks. Lines whose cause repeats are held back (logger.c).
 *
 * Threads: any; under no mutex.
 */
#ifndef RELOCK_LOG_H
#define RELOCK_LOG_H

#include <relock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_logger;

/* ---- logger ---------------------------------------------------------------------------------- */

/* Where the lines go: to the program's function or to stderr. */
struct relock_sink {
    relock_log_fn *log;       /* the program's on_log, or NULL */
    relock_record_fn *record; /* the program's on_record, used instead of `log`; or NULL */
    void *arg;
};

/* Why a line is logged, whichever lock it concerns. `what` is a constant string, compared by
 * address; `which` is a result or the like. So the number of causes is limited. */
struct relock_cause {
    const char *what;
    int which;
};

/* Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_logger_new(const struct relock_sink *sink, struct relock_logger **logger);

/* How many lines were dropped so far. */
uint64_t relock_logger_dropped(const struct relock_logger *logger);

/*
 * Writes the queued lines and those held back, then ends the thread. If the sink still blocks after
 * RELOCK_LOGGER_END_MS, the remaining lines are dropped, and the thread frees the logger when the
 * sink returns. Takes NULL; returns NULL.
 */
struct relock_logger *relock_logger_free(struct relock_logger *logger);

/* ---- log ------------------------------------------------------------------------------------- */

struct relock_log {
    int level; /* lines of this level and of graver ones are written */
    relock_log_fn *sink;
    relock_record_fn *on_record; /* in place of `sink` */
    void *arg;
    struct relock_logger *logger; /* its thread writes; NULL in tests: the caller writes */
};

/* The format, a constant string, is also the cause of the line. */
#define relock_log_write(log, level, ...) \
    relock_log_cause((log), (struct relock_cause){0}, (level), __VA_ARGS__)

/* Writes a line whose format serves several causes, so the cause is given beside it. */
__attribute__((format(printf, 4, 5))) void relock_log_cause(const struct relock_log *log,
                                                            struct relock_cause cause, int level,
                                                            const char *format, ...);

/* The subject of a line: see struct relock_record. */
struct relock_subject {
    const char *lock;
    uint64_t owner;
    int result;
};

/* A warning about a lock. */
__attribute__((format(printf, 4, 5))) void relock_log_about(const struct relock_log *log,
                                                            struct relock_cause cause,
                                                            const struct relock_subject *subject,
                                                            const char *format, ...);

#define RELOCK_LOG_NAME_MAX 256

/* Writes `name` in printable ASCII, cut with "..." when long. Returns `out`. */
const char *relock_log_name(const char *name, char out[RELOCK_LOG_NAME_MAX]);

#endif
