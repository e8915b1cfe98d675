#include "sleeper.h"

#include <stdlib.h>

struct search {
    const struct attempts *attempts;
    const struct history_record **faults; /* by when they began */
    size_t n_faults;
    uint64_t longest_ns, recovery_ns;
    sleeper_fn *found;
    void *arg;
};

static int compare_begins(const void *one, const void *other)
{
    const struct history_record *a = *(const struct history_record *const *)one;
    const struct history_record *b = *(const struct history_record *const *)other;

    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

static void sort_faults(struct search *search, const struct history_records *records)
{
    search->faults = malloc((records->n + 1) * sizeof(const struct history_record *));
    if (!search->faults)
        abort();
    for (size_t i = 0; i < records->n; i++)
        if (records->at[i].kind == HISTORY_FAULT)
            search->faults[search->n_faults++] = &records->at[i];
    qsort(search->faults, search->n_faults, sizeof(*search->faults), compare_begins);
}

/* Cuts the time of a sleeper down to the first part of it that is too long and without faults. */
static bool has_no_excuse(const struct search *search, struct sleeper *sleeper)
{
    uint64_t end_ns = sleeper->to_ns;

    for (size_t i = 0; i < search->n_faults && sleeper->from_ns < end_ns; i++) {
        const struct history_record *fault = search->faults[i];
        uint64_t felt_ns = fault->to_ns + search->recovery_ns;

        if (fault->slot >= 0 && fault->slot != sleeper->wait->slot)
            continue;
        if (fault->from_ns > sleeper->from_ns + search->longest_ns)
            break;
        if (felt_ns > sleeper->from_ns)
            sleeper->from_ns = felt_ns;
    }
    if (sleeper->from_ns + search->longest_ns >= end_ns)
        return false;
    sleeper->to_ns = sleeper->from_ns + search->longest_ns;
    return true;
}

static uint64_t end_of_wait(const struct attempt *attempt)
{
    if (attempt->take)
        return attempt->take->to_ns;
    return attempt->killed ? attempt->killed->from_ns : UINT64_MAX;
}

/* Who waited while the lock was free, and nobody got it, from one time to the other. */
static void look_at(const struct search *search, const struct history_record *free,
                    uint64_t from_ns, uint64_t to_ns)
{
    if (to_ns - from_ns <= search->longest_ns)
        return;
    for (size_t i = 0; i < search->attempts->n; i++) {
        const struct attempt *attempt = &search->attempts->at[i];
        struct sleeper sleeper = {attempt->ask, free, from_ns, to_ns};

        if (attempt->ask->lock != free->lock || attempt->ask->value == 0)
            continue;
        if (attempt->ask->from_ns > sleeper.from_ns)
            sleeper.from_ns = attempt->ask->from_ns;
        if (end_of_wait(attempt) < sleeper.to_ns)
            sleeper.to_ns = end_of_wait(attempt);
        if (has_no_excuse(search, &sleeper))
            search->found(&sleeper, search->arg);
    }
}

static void split(const struct search *search, const struct history_record *free)
{
    uint64_t from_ns = free->from_ns;

    for (size_t i = 0; i < search->attempts->n; i++) {
        const struct attempt *attempt = &search->attempts->at[i];

        if (attempt->ask->lock != free->lock || !attempt_is_hold(attempt) ||
            attempt->take->to_ns < from_ns || attempt->take->to_ns > free->to_ns)
            continue;
        look_at(search, free, from_ns, attempt->take->to_ns);
        from_ns = attempt->take->to_ns;
    }
    look_at(search, free, from_ns, free->to_ns);
}

void sleepers_find(const struct history_records *records, const struct attempts *attempts,
                   uint64_t longest_ns, uint64_t recovery_ns, sleeper_fn *found, void *arg)
{
    struct search search = {.attempts = attempts,
                            .longest_ns = longest_ns,
                            .recovery_ns = recovery_ns,
                            .found = found,
                            .arg = arg};

    sort_faults(&search, records);
    for (size_t i = 0; i < records->n; i++) {
        const struct history_record *r = &records->at[i];

        if (r->kind == HISTORY_FREE && r->to_ns - r->from_ns > longest_ns)
            split(&search, r);
    }
    free(search.faults);
}
