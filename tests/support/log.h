/*
 * Log - the lines that a client under test logged
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_LOG_H
#define RELOCK_TEST_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log;

struct log *log_new(void);
struct log *log_free(struct log *log);

/* A relock_log_fn; `arg` is the log. */
void log_write(int level, const char *text, void *arg);

/* A relock_log_fn that drops every line. */
void log_drop(int level, const char *text, void *arg);

void log_clear(struct log *log);

/* Number of lines that contain `text`; of all lines with "". */
size_t log_count(struct log *log, const char *text);

/* For how many events those lines stand that contain `text`: each for one, and for as many as it
 * has behind `more`. */
size_t log_sum(struct log *log, const char *text, const char *more);

/* Number of lines at least as grave as `level`. */
size_t log_count_grave(struct log *log, int level);

/* Waits until some line contains `text`. If none comes, prints all lines on stderr. */
bool log_wait(struct log *log, const char *text, uint64_t within_ms);

/* Waits until so many do, or more. */
bool log_wait_least(struct log *log, const char *text, size_t n, uint64_t within_ms);

/* Waits until so many do, and says whether it was not more. A line that is one too many may come
 * later. */
bool log_wait_n(struct log *log, const char *text, size_t n, uint64_t within_ms);

void log_print(struct log *log);

#endif
