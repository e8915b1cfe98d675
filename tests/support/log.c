#include "support/log.h"

#include "support/wait.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    struct line *next;
    int level;
    char text[];
};

struct log {
    pthread_mutex_t mutex;
    struct {
        struct line *first, **end;
    } guarded; /* by mutex */
};

struct log *log_new(void)
{
    struct log *log = calloc(1, sizeof(*log));

    if (!log)
        abort();
    pthread_mutex_init(&log->mutex, NULL);
    log->guarded.end = &log->guarded.first;
    return log;
}

struct log *log_free(struct log *log)
{
    if (!log)
        return NULL;

    log_clear(log);
    pthread_mutex_destroy(&log->mutex);
    free(log);
    return NULL;
}

void log_write(int level, const char *text, void *arg)
{
    struct log *log = arg;
    size_t size = strlen(text) + 1;
    struct line *line = malloc(sizeof(*line) + size);

    if (!line)
        abort();
    line->next = NULL;
    line->level = level;
    memcpy(line->text, text, size);

    pthread_mutex_lock(&log->mutex);
    *log->guarded.end = line;
    log->guarded.end = &line->next;
    pthread_mutex_unlock(&log->mutex);
}

void log_drop(int level, const char *text, void *arg)
{
    (void)level;
    (void)text;
    (void)arg;
}

void log_clear(struct log *log)
{
    struct line *line;

    pthread_mutex_lock(&log->mutex);
    line = log->guarded.first;
    log->guarded.first = NULL;
    log->guarded.end = &log->guarded.first;
    pthread_mutex_unlock(&log->mutex);

    while (line) {
        struct line *next = line->next;

        free(line);
        line = next;
    }
}

size_t log_count(struct log *log, const char *text)
{
    size_t n = 0;

    pthread_mutex_lock(&log->mutex);
    for (struct line *line = log->guarded.first; line; line = line->next)
        n += strstr(line->text, text) != NULL;
    pthread_mutex_unlock(&log->mutex);
    return n;
}

size_t log_sum(struct log *log, const char *text, const char *more)
{
    size_t n = 0;

    pthread_mutex_lock(&log->mutex);
    for (struct line *line = log->guarded.first; line; line = line->next) {
        const char *at = strstr(line->text, more);

        if (strstr(line->text, text))
            n += 1 + (at ? strtoul(at + strlen(more), NULL, 10) : 0);
    }
    pthread_mutex_unlock(&log->mutex);
    return n;
}

size_t log_count_grave(struct log *log, int level)
{
    size_t n = 0;

    pthread_mutex_lock(&log->mutex);
    for (struct line *line = log->guarded.first; line; line = line->next)
        n += line->level <= level;
    pthread_mutex_unlock(&log->mutex);
    return n;
}

struct search {
    struct log *log;
    const char *text;
    size_t n;
};

static bool is_found(void *arg)
{
    struct search *search = arg;

    return log_count(search->log, search->text) >= search->n;
}

bool log_wait_least(struct log *log, const char *text, size_t n, uint64_t within_ms)
{
    if (wait_until(is_found, &(struct search){log, text, n}, within_ms))
        return true;

    fprintf(stderr, "less than %zu lines contain \"%s\"; there is:\n", n, text);
    log_print(log);
    return false;
}

bool log_wait(struct log *log, const char *text, uint64_t within_ms)
{
    return log_wait_least(log, text, 1, within_ms);
}

bool log_wait_n(struct log *log, const char *text, size_t n, uint64_t within_ms)
{
    return log_wait_least(log, text, n, within_ms) && log_count(log, text) == n;
}

void log_print(struct log *log)
{
    pthread_mutex_lock(&log->mutex);
    for (struct line *line = log->guarded.first; line; line = line->next)
        fprintf(stderr, "  <%d> %s\n", line->level, line->text);
    pthread_mutex_unlock(&log->mutex);
}
