#include "lock_list.h"

#include "must.h"
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
    [RELOCK_KIND_SEMAPHORE] = "semaphore",
    [RELOCK_KIND_MAYBE_SEMAPHORE] = "semaphore?",
    [RELOCK_KIND_MAYBE_LATCH] = "latch?",
    [RELOCK_KIND_NUMBER] = "number?",
};

#define N_KINDS (sizeof(kinds) / sizeof(*kinds))

static const char *const said_words[] = {
    [SAID_PLAIN] = "plain",
    [SAID_SEMAPHORE] = "semaphore",
    [SAID_UNLEASED] = "unleased",
    [SAID_LATCH] = "latch",
};

#define N_SAID (sizeof(said_words) / sizeof(*said_words))

static void keep_permits(struct lock_row *row, const struct relock_permits_info *info)
{
    size_t n = 0;

    for (const struct relock_permits_info *at = info; at; at = at->next)
        n++;
    row->permits = n > 0 ? must(calloc(n, sizeof(*row->permits))) : NULL;
    for (; info; info = info->next) {
        struct permits_row *permits = &row->permits[row->n_permits++];

        (void)snprintf(permits->id, sizeof(permits->id), "%s", info->id);
        permits->client_name = must(strdup(info->client_name));
        permits->n = info->n_permits;
        permits->ttl_ms = info->ttl_ms;
        permits->held_ms = info->held_ms;
    }
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
        .library = must(strdup(info->library)),
        .n_waiting = info->n_waiting,
        .held_ms = info->held_ms,
        .number = info->number,
        .n_out = info->n_out,
        .is_unset = info->is_unset,
    };
    keep_permits(&list->rows[list->n - 1], info->permits);
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
    for (size_t i = 0; i < row->n_permits; i++)
        free(row->permits[i].client_name);
    free(row->permits);
    free(row->name);
    free(row->client_name);
    free(row->library);
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

/* ---- what a row is ------------------------------------------------------------------------- */

enum said lock_list_said(const struct args *args, const char *word)
{
    for (size_t i = SAID_PLAIN; i < N_SAID; i++)
        if (strcmp(said_words[i], word) == 0)
            return (enum said)i;
    args_refuse(args, "--kind: `%s` is not plain, semaphore, unleased or latch", word);
}

static bool is_number(const struct lock_row *row)
{
    return row->kind == RELOCK_KIND_NUMBER || row->kind == RELOCK_KIND_MAYBE_LATCH ||
           row->kind == RELOCK_KIND_MAYBE_SEMAPHORE;
}

bool lock_row_is_unsaid(const struct lock_row *row)
{
    return is_number(row) && row->said == SAID_NOTHING;
}

/* Its name tells nothing either. */
static bool is_any_number(const struct lock_row *row)
{
    return row->kind == RELOCK_KIND_NUMBER && row->said == SAID_NOTHING;
}

bool lock_row_say(struct lock_row *row, enum said said)
{
    bool is_plain = row->kind == RELOCK_KIND_PLAIN || row->kind == RELOCK_KIND_MAYBE_PLAIN;
    bool is_so = (is_plain && said == SAID_PLAIN) ||
                 (row->kind == RELOCK_KIND_SEMAPHORE && said == SAID_SEMAPHORE);

    if (said == SAID_NOTHING)
        return true;
    if (!is_so && !is_number(row) && row->kind != RELOCK_KIND_NONE)
        return false;
    row->said = said;
    if (is_number(row)) { /* a lock would have a holder, and the others have no lease */
        row->holder = (struct relock_holder){.ttl_ms = -1};
        row->holder.n_holders = row->holder.hold_count = said == SAID_PLAIN;
        if (said == SAID_PLAIN)
            (void)snprintf(row->holder.id, sizeof(row->holder.id), "%lld", (long long)row->number);
    }
    return true;
}

enum said lock_row_sight(const struct lock_row *row)
{
    if (row->said != SAID_NOTHING)
        return row->said;
    switch (row->kind) {
    case RELOCK_KIND_SEMAPHORE:
        return SAID_SEMAPHORE;
    case RELOCK_KIND_MAYBE_SEMAPHORE:
        return SAID_UNLEASED;
    case RELOCK_KIND_MAYBE_LATCH:
        return SAID_LATCH;
    default:
        return SAID_NOTHING;
    }
}

bool lock_row_is_held(const struct lock_row *row)
{
    switch (lock_row_sight(row)) {
    case SAID_SEMAPHORE:
        return row->n_out > 0;
    case SAID_UNLEASED:
        return row->kind != RELOCK_KIND_NONE && row->number <= 0;
    case SAID_LATCH:
        return row->number > 0;
    default:
        return row->holder.n_holders > 0;
    }
}

uint64_t lock_row_n_unseen(const struct lock_row *row)
{
    uint64_t n = row->n_out;

    for (size_t i = 0; i < row->n_permits; i++)
        n -= row->permits[i].n;
    return n;
}

/* A library that is newer than the tool may report further kinds. */
const char *lock_row_kind(const struct lock_row *row)
{
    if (row->said != SAID_NOTHING)
        return said_words[row->said];
    return (size_t)row->kind < N_KINDS ? kinds[row->kind] : "?";
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
    size_t n;

    if (row->holder.n_holders == 0 || is_any_number(row))
        return NULL;
    (void)snprintf(text, sizeof(text), "%s", lock_list_who(row->client_name, row->holder.id));
    n = row->permits ? row->n_permits : row->holder.n_holders;
    if (n > 1)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), " and %zu more", n - 1);
    return text;
}

/* For programs. */
static const char *state_of(const struct lock_row *row)
{
    enum said sight = lock_row_sight(row);

    if (row->kind == RELOCK_KIND_OTHER)
        return "blocked";
    if (is_any_number(row))
        return "number";
    if (row->is_unset ||
        (row->kind == RELOCK_KIND_NONE && (sight == SAID_SEMAPHORE || sight == SAID_UNLEASED)))
        return "unset";
    if (sight == SAID_LATCH)
        return row->number > 0 ? "closed" : "open";
    if (!lock_row_is_held(row))
        return "free";
    if (row->kind == RELOCK_KIND_RW)
        return row->holder.other_side ? "read" : "written";
    return "held";
}

const char *lock_row_state(const struct lock_row *row)
{
    static char text[64];
    enum said sight = lock_row_sight(row);
    const char *state = state_of(row);
    long long number = (long long)row->number;

    (void)snprintf(text, sizeof(text), "%s", state);
    if (row->kind == RELOCK_KIND_NONE)
        return text;
    if (row->is_unset)
        (void)snprintf(text, sizeof(text), "%llu out of ?", (unsigned long long)row->n_out);
    else if (sight == SAID_SEMAPHORE)
        (void)snprintf(text, sizeof(text), "%llu of %lld out", (unsigned long long)row->n_out,
                       number + (long long)row->n_out);
    else if (sight == SAID_UNLEASED)
        (void)snprintf(text, sizeof(text), "%lld free", number);
    else if (sight == SAID_LATCH && number > 0)
        (void)snprintf(text, sizeof(text), "closed at %lld", number);
    else if (is_any_number(row))
        (void)snprintf(text, sizeof(text), "%lld", number);
    return text;
}

/* ---- output -------------------------------------------------------------------------------- */

/* The acquires of a semaphore, for programs. */
static void add_acquires(struct report *report, const struct lock_row *row)
{
    static const struct column columns[] = {
        {"", "id"},      {"", "holder"},   {"", "permits"},
        {"", "held_ms"}, {"", "lease_ms"}, {NULL, NULL},
    };
    struct report *acquires = report_new(columns, true);

    for (size_t i = 0; i < row->n_permits; i++) {
        const struct permits_row *permits = &row->permits[i];

        report_text(acquires, permits->id, COLOUR_NONE);
        report_text(acquires, lock_list_who(permits->client_name, permits->id), COLOUR_NONE);
        report_number(acquires, (int64_t)permits->n);
        report_ms(acquires, permits->held_ms);
        report_ms(acquires, permits->ttl_ms);
    }
    report_rows(report, acquires);
    report_free(acquires);
}

static void add_for_programs(struct report *report, const struct lock_row *row)
{
    bool is_semaphore = lock_row_sight(row) == SAID_SEMAPHORE && row->kind != RELOCK_KIND_NONE;

    if (is_number(row) || (is_semaphore && !row->is_unset))
        report_number(report, row->number);
    else
        report_text(report, NULL, COLOUR_NONE);
    if (is_semaphore) {
        report_number(report, (int64_t)row->n_out);
        add_acquires(report, row);
    } else {
        report_text(report, NULL, COLOUR_NONE);
        report_text(report, NULL, COLOUR_NONE);
    }
}

static enum colour colour_of(const struct lock_row *row)
{
    if (row->kind == RELOCK_KIND_OTHER || row->is_unset)
        return COLOUR_BAD;
    return lock_row_is_held(row) ? COLOUR_NOTE : COLOUR_GOOD;
}

static void add_kind(struct report *report, const struct lock_row *row)
{
    const char *kind = lock_row_kind(row);
    char text[64];

    (void)snprintf(text, sizeof(text), *row->library ? "%s (%s)" : "%s", kind ? kind : "",
                   row->library);
    if (kind)
        report_said(report, text, COLOUR_NONE, kind);
    else
        report_text(report, NULL, COLOUR_NONE);
}

static void add_row(struct report *report, const struct lock_row *row)
{
    const char *holder = lock_row_holder(row);
    char levels[24];

    report_text(report, row->name, COLOUR_NONE);
    add_kind(report, row);
    report_said(report, lock_row_state(row), colour_of(row), state_of(row));
    report_text(report, holder, COLOUR_NONE);
    report_text(report, holder ? row->holder.id : NULL, COLOUR_NONE);
    (void)snprintf(levels, sizeof(levels), "%u", row->holder.hold_count);
    report_both(report, lock_row_sight(row) == SAID_NOTHING && !is_any_number(row) ? levels : "-",
                COLOUR_NONE, levels);
    report_number(report, row->holder.n_holders);
    report_ms(report, row->held_ms);
    report_ms(report, row->holder.n_holders > 0 ? row->holder.ttl_ms : -1);
    report_number(report, row->n_waiting);
    add_for_programs(report, row);
    report_text(report, *row->library ? row->library : NULL, COLOUR_NONE);
}

static void add_blanks(struct report *report, int n)
{
    while (n-- > 0)
        report_both(report, "", COLOUR_NONE, "null");
}

/* For people: the permits of an acquire, below their semaphore. */
static void add_permits(struct report *report, const struct permits_row *permits)
{
    char name[RELOCK_PERMIT_HEX_MAX + 3], n[32];

    (void)snprintf(name, sizeof(name), "  %s", permits->id);
    (void)snprintf(n, sizeof(n), "%llu out", (unsigned long long)permits->n);
    report_text(report, name, COLOUR_NONE);
    add_blanks(report, 1);
    report_text(report, n, COLOUR_NONE);
    report_text(report, lock_list_who(permits->client_name, permits->id), COLOUR_NONE);
    add_blanks(report, 3);
    report_ms(report, permits->held_ms);
    report_ms(report, permits->ttl_ms);
    add_blanks(report, 5);
}

/* For people: what a number may be. */
static void print_guesses(const struct lock_row *row)
{
    long long number = (long long)row->number;

    text_print(stdout, row->name);
    (void)puts(": the key has only a number. It may be a counter, or what --kind says:");
    if (number >= 0)
        (void)printf("  --kind semaphore  %lld permits, all free\n", number);
    if (number > 0)
        (void)printf("  --kind latch      closed at %lld\n", number);
    (void)printf("  --kind unleased   a semaphore without leases, %lld permits free\n", number);
    (void)printf("  --kind plain      a plain lock, held by %lld\n", number);
}

/* For people: the fault of a semaphore, and its remedy. Any program may have chosen the name: for
 * one that is not safe to print there is a placeholder, as an escaped name is that of another
 * semaphore. */
static void print_remedy(const struct lock_row *row)
{
    char *name = must(text_escape(row->name));
    bool is_escaped = strcmp(name, row->name) != 0;

    (void)printf(
        "%s: its number of permits is missing while %llu are out: its key was deleted, or has "
        "expired.\n  Until it is set again, nobody gets a permit. To set it to N%s:\n  "
        "relock run -n --set-permits N %s",
        name, (unsigned long long)row->n_out, is_escaped ? ", with its NAME as above" : "",
        is_escaped || *name == '-' ? "-- " : "");
    text_print_word(stdout, is_escaped ? "NAME" : name);
    (void)puts(" -- true");
    free(name);
}

static int print(const struct lock_list *list, size_t n, bool is_json, bool in_full, bool is_line)
{
    /* A column without a title is for programs. */
    static const struct column columns[] = {
        {"NAME", "name"},      {"KIND", "kind"},       {"STATE", "state"}, {"HOLDER", "holder"},
        {"", "holder_id"},     {"LEVELS", "levels"},   {"", "holders"},    {"HELD", "held_ms"},
        {"LEASE", "lease_ms"}, {"WAITING", "waiting"}, {"", "number"},     {"", "out"},
        {"", "permits"},       {"", "library"},        {NULL, NULL},
    };
    struct report *report = report_new(columns, is_json);
    bool done;

    for (size_t i = 0; i < list->n && i < n; i++) {
        const struct lock_row *row = &list->rows[i];

        add_row(report, row);
        for (size_t k = 0; in_full && !is_json && k < row->n_permits; k++)
            add_permits(report, &row->permits[k]);
    }
    done = report_print(report, is_line);
    report_free(report);
    for (size_t i = 0; !is_json && i < list->n && i < n; i++) {
        const struct lock_row *row = &list->rows[i];

        if (row->is_unset)
            print_remedy(row);
        else if (in_full && is_any_number(row))
            print_guesses(row);
    }
    return done && fflush(stdout) == 0 ? STATUS_OK : STATUS_FAILED;
}

int lock_list_print(const struct lock_list *list, size_t n, bool is_json, bool in_full)
{
    return print(list, n, is_json, in_full, false);
}

int lock_list_print_line(const struct lock_list *list)
{
    return print(list, 1, true, false, true);
}
