#include "lock_list.h"

#include "statuses.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUR_NAMES "relock:" /* the library's own names of clients begin with it */
#define WHO_MAX 256

static const char *const kinds[] = {
    [RELOCK_KIND_NONE] = NULL,
    [RELOCK_KIND_REENTRANT] = "reentrant",
    [RELOCK_KIND_FENCED] = "fenced",
    [RELOCK_KIND_FAIR] = "fair",
    [RELOCK_KIND_RW] = "read-write",
    [RELOCK_KIND_PLAIN] = "plain",
    [RELOCK_KIND_MAYBE_PLAIN] = "plain?",
    [RELOCK_KIND_OTHER] = "no lock",
    [RELOCK_KIND_FOREIGN] = "foreign",
};

static void *must(void *memory)
{
    if (memory)
        return memory;
    (void)fputs("relock: out of memory\n", stderr);
    abort();
}

static bool keep(const struct relock_lock_info *info, void *arg)
{
    struct lock_list *list = arg;

    if (list->n == list->size) {
        list->size = list->size ? 2 * list->size : 64;
        list->rows = must(realloc(list->rows, list->size * sizeof(*list->rows)));
    }
    list->rows[list->n++] = (struct lock_row){
        .name = must(strdup(info->name)),
        .kind = info->kind,
        .holder = info->holder,
        .client_name = must(strdup(info->client_name)),
        .n_waiting = info->n_waiting,
        .held_ms = info->held_ms,
    };
    return true;
}

int lock_list_find(struct lock_list *list, struct relock_client *client, const char *pattern)
{
    return relock_locks(client, pattern, keep, list);
}

int lock_list_find_name(struct lock_list *list, struct relock_client *client, const char *name)
{
    char *pattern = must(text_pattern(name));
    int r = lock_list_find(list, client, pattern);

    free(pattern);
    return r;
}

static void free_row(struct lock_row *row)
{
    free(row->name);
    free(row->client_name);
}

void lock_list_free(struct lock_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free_row(&list->rows[i]);
    free(list->rows);
    *list = (struct lock_list){0};
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct lock_row *)a)->name, ((const struct lock_row *)b)->name);
}

static int compare_waiting(const void *a, const void *b)
{
    unsigned first = ((const struct lock_row *)a)->n_waiting;
    unsigned second = ((const struct lock_row *)b)->n_waiting;

    return first != second ? (first < second ? 1 : -1) : compare_names(a, b);
}

void lock_list_sort(struct lock_list *list, bool by_waiting)
{
    size_t n = 0;

    if (list->n == 0)
        return;
    qsort(list->rows, list->n, sizeof(*list->rows), compare_names);
    for (size_t i = 0; i < list->n; i++) {
        if (n > 0 && strcmp(list->rows[n - 1].name, list->rows[i].name) == 0)
            free_row(&list->rows[i]);
        else
            list->rows[n++] = list->rows[i];
    }
    list->n = n;
    if (by_waiting)
        qsort(list->rows, list->n, sizeof(*list->rows), compare_waiting);
}

bool lock_row_is_held(const struct lock_row *row)
{
    return row->holder.n_holders > 0;
}

const char *lock_list_who(const char *client_name, const char *id)
{
    if (strncmp(client_name, OUR_NAMES, strlen(OUR_NAMES)) == 0)
        return client_name + strlen(OUR_NAMES);
    return *client_name ? client_name : id;
}

const char *lock_row_holder(const struct lock_row *row)
{
    static char text[WHO_MAX];

    if (!lock_row_is_held(row))
        return NULL;
    (void)snprintf(text, sizeof(text), "%s", lock_list_who(row->client_name, row->holder.id));
    if (row->holder.n_holders > 1)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), " and %u more",
                       row->holder.n_holders - 1);
    return text;
}

static const char *state_of(const struct lock_row *row)
{
    if (row->kind == RELOCK_KIND_OTHER)
        return "blocked";
    if (!lock_row_is_held(row))
        return "free";
    if (row->kind == RELOCK_KIND_RW)
        return row->holder.other_side ? "read" : "written";
    return "held";
}

static void add_row(struct report *report, const struct lock_row *row)
{
    bool is_held = lock_row_is_held(row);

    report_text(report, row->name, COLOUR_NONE);
    report_text(report, kinds[row->kind], COLOUR_NONE);
    report_text(report, state_of(row),
                row->kind == RELOCK_KIND_OTHER ? COLOUR_BAD
                : is_held                      ? COLOUR_NOTE
                                               : COLOUR_GOOD);
    report_text(report, lock_row_holder(row), COLOUR_NONE);
    report_text(report, is_held ? row->holder.id : NULL, COLOUR_NONE);
    report_number(report, row->holder.hold_count);
    report_number(report, row->holder.n_holders);
    report_ms(report, row->held_ms);
    report_ms(report, is_held ? row->holder.ttl_ms : -1);
    report_number(report, row->n_waiting);
}

int lock_list_print(const struct lock_list *list, size_t n, bool is_json, bool is_line)
{
    /* A column without a title is for programs. */
    static const struct column columns[] = {
        {"NAME", "name"},      {"KIND", "kind"},       {"STATE", "state"}, {"HOLDER", "holder"},
        {"", "holder_id"},     {"LEVELS", "levels"},   {"", "holders"},    {"HELD", "held_ms"},
        {"LEASE", "lease_ms"}, {"WAITING", "waiting"}, {NULL, NULL},
    };
    struct report *report = report_new(columns, is_json);
    bool done;

    for (size_t i = 0; i < list->n && i < n; i++)
        add_row(report, &list->rows[i]);
    done = report_print(report, is_line);
    report_free(report);
    return done ? STATUS_OK : STATUS_FAILED;
}
