/*
 * Numbers: a command that changes a latch or an unleased semaphore runs at most once, and once if
 * it has returned RELOCK_OK.
 *
 * Each number belongs to one thread, which uses no number any more once the outcome of a command is
 * unknown, because it was not answered or the process was killed. So of each number at most one
 * command is unknown, and what the number must be at the end is known but for this one.
 */
#include "checker.h"

#include <relock.h>
#include <stdlib.h>

struct sum {
    int64_t known;   /* what has certainly run */
    int64_t unknown; /* by how much the last command may have changed it */
    int64_t found;   /* at the end; 0: Redis has no such number */
};

static bool is_of_number(const struct history_record *r)
{
    return r->kind == HISTORY_COUNT || r->kind == HISTORY_COUNTED || r->kind == HISTORY_NUMBER;
}

static void add(struct sum *sum, const struct history_record *r)
{
    switch (r->kind) {
    case HISTORY_COUNT:
        sum->unknown = r->value;
        break;
    case HISTORY_COUNTED:
        if (r->result == RELOCK_E_CONN)
            break;
        sum->unknown = 0;
        sum->known += r->result == RELOCK_OK ? r->value : 0;
        break;
    default:
        sum->found = r->value;
        break;
    }
}

/* By number; the records of one in the order of writing, and its end behind them. */
static int compare(const void *one, const void *other)
{
    const struct history_record *a = *(const struct history_record *const *)one;
    const struct history_record *b = *(const struct history_record *const *)other;
    const int differences[] = {a->slot - b->slot, a->life - b->life, a->thread - b->thread,
                               a->lock - b->lock,
                               (a->kind == HISTORY_NUMBER) - (b->kind == HISTORY_NUMBER)};

    for (size_t i = 0; i < sizeof(differences) / sizeof(*differences); i++)
        if (differences[i] != 0)
            return differences[i];
    return (a > b) - (a < b);
}

static bool is_same_number(const struct history_record *a, const struct history_record *b)
{
    return a->slot == b->slot && a->life == b->life && a->thread == b->thread && a->lock == b->lock;
}

static void check_number(struct checker *checker, const struct history_record **at, size_t n)
{
    struct sum sum = {0};

    for (size_t i = 0; i < n; i++)
        add(&sum, at[i]);
    checker->report->n_numbers++;
    if (sum.found == sum.known || sum.found == sum.known + sum.unknown)
        return;
    checker_report(checker, CHECK_MISCOUNTED, at[0], at[n - 1]);
    for (size_t i = 1; i + 1 < n; i++)
        checker_tell(checker, CHECK_MISCOUNTED, at[i]);
}

void check_numbers(struct checker *checker)
{
    const struct history_records *records = checker->records;
    const struct history_record **sorted = malloc((records->n + 1) * sizeof(*sorted));
    size_t n = 0, from = 0;

    if (!sorted)
        abort();
    for (size_t i = 0; i < records->n; i++)
        if (is_of_number(&records->at[i]))
            sorted[n++] = &records->at[i];
    qsort(sorted, n, sizeof(*sorted), compare);
    for (size_t i = 1; i <= n; i++) {
        if (i < n && is_same_number(sorted[i], sorted[from]))
            continue;
        check_number(checker, sorted + from, i - from);
        from = i;
    }
    free(sorted);
}
