#include "history.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S ((uint64_t)1000000000)

static const char *const kinds[] = {
#define KIND(name, text) text,
    HISTORY_KIND_MAP(KIND)
#undef KIND
};

static const char *const sorts[] = {
#define SORT(name, text) text,
    HISTORY_SORT_MAP(SORT)
#undef SORT
};

static void die(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

uint64_t history_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

const char *history_sort_name(enum history_sort sort)
{
    return sorts[sort];
}

/* ---- writing ------------------------------------------------------------------------------- */

void history_open(struct history *history, const char *path)
{
    history->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (history->fd < 0)
        die(path);
}

void history_close(struct history *history)
{
    close(history->fd);
}

void history_print(const struct history_record *r, char line[HISTORY_LINE_MAX])
{
    snprintf(line, HISTORY_LINE_MAX,
             "%" PRIu64 ".%09" PRIu64 " %" PRIu64 ".%09" PRIu64
             " %s process %d.%d thread %d lock %d %s hold %u result %d value %" PRId64
             " token %" PRIu64 " permits %u",
             r->from_ns / NS_PER_S, r->from_ns % NS_PER_S, r->to_ns / NS_PER_S, r->to_ns % NS_PER_S,
             kinds[r->kind], r->slot, r->life, r->thread, r->lock, sorts[r->sort], r->hold,
             r->result, r->value, r->token, r->permits);
}

void history_write(struct history *history, const struct history_record *record)
{
    char line[HISTORY_LINE_MAX];
    size_t n;

    history_print(record, line);
    n = strlen(line);
    line[n++] = '\n';
    if (write(history->fd, line, n) != (ssize_t)n)
        die("history");
}

/* ---- reading ------------------------------------------------------------------------------- */

void history_add(struct history_records *records, const struct history_record *record)
{
    if (records->n == records->size) {
        records->size = 2 * records->size + 1024;
        records->at = realloc(records->at, records->size * sizeof(*records->at));
        if (!records->at)
            die("history");
    }
    records->at[records->n++] = *record;
}

static int find(const char *const *names, int n, const char *name)
{
    int i = 0;

    while (i < n && strcmp(names[i], name) != 0)
        i++;
    return i;
}

static bool parse(const char *line, struct history_record *r)
{
    char kind[16] = "", sort[16] = "";
    uint64_t from_s, to_s;
    int n = sscanf(line,
                   "%" SCNu64 ".%" SCNu64 " %" SCNu64 ".%" SCNu64
                   " %15s process %d.%d thread %d lock %d %15s hold %u result %d value %" SCNd64
                   " token %" SCNu64 " permits %u",
                   &from_s, &r->from_ns, &to_s, &r->to_ns, kind, &r->slot, &r->life, &r->thread,
                   &r->lock, sort, &r->hold, &r->result, &r->value, &r->token, &r->permits);

    r->kind = (enum history_kind)find(kinds, HISTORY_N_KINDS, kind);
    r->sort = (enum history_sort)find(sorts, HISTORY_N_SORTS, sort);
    if (n != 15 || r->kind == HISTORY_N_KINDS || r->sort == HISTORY_N_SORTS)
        return false;
    r->from_ns += from_s * NS_PER_S;
    r->to_ns += to_s * NS_PER_S;
    return true;
}

/* The last line of a killed process may be truncated: its step is unknown. */
static void read_file(struct history_records *records, const char *path)
{
    FILE *file = fopen(path, "re");
    struct history_record record;
    char line[HISTORY_LINE_MAX + 1];

    if (!file)
        die(path);
    while (fgets(line, sizeof(line), file)) {
        if (!strchr(line, '\n'))
            continue;
        if (!parse(line, &record)) {
            fprintf(stderr, "%s: this is no record: %s", path, line);
            exit(EXIT_FAILURE);
        }
        history_add(records, &record);
    }
    fclose(file);
}

void history_read(struct history_records *records, const char *dir)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    char path[512];

    if (!folder)
        die(dir);
    while ((entry = readdir(folder))) {
        if (strncmp(entry->d_name, "history", 7) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        read_file(records, path);
    }
    closedir(folder);
}

void history_free(struct history_records *records)
{
    free(records->at);
    *records = (struct history_records){0};
}
