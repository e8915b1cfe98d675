#include "excuses.h"

#include <stdlib.h>

static int compare_begins(const void *one, const void *other)
{
    const struct history_record *a = *(const struct history_record *const *)one;
    const struct history_record *b = *(const struct history_record *const *)other;

    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

void excuses_make(struct excuses *excuses, const struct history_records *records,
                  uint64_t recovery_ns)
{
    *excuses = (struct excuses){.recovery_ns = recovery_ns};
    excuses->at = malloc((records->n + 1) * sizeof(const struct history_record *));
    if (!excuses->at)
        abort();
    for (size_t i = 0; i < records->n; i++)
        if (records->at[i].kind == HISTORY_FAULT)
            excuses->at[excuses->n++] = &records->at[i];
    qsort(excuses->at, excuses->n, sizeof(*excuses->at), compare_begins);
}

void excuses_free(struct excuses *excuses)
{
    free(excuses->at);
    *excuses = (struct excuses){0};
}

bool excuse_touches(const struct history_record *fault, int slot)
{
    return fault->slot < 0 || fault->slot == slot;
}

uint64_t excuses_over_since_ns(const struct excuses *excuses, int slot, uint64_t from_ns,
                               uint64_t to_ns)
{
    uint64_t since_ns = from_ns;

    for (size_t i = 0; i < excuses->n && excuses->at[i]->from_ns < to_ns; i++) {
        uint64_t felt_ns = excuses->at[i]->to_ns + excuses->recovery_ns;

        if (excuse_touches(excuses->at[i], slot) && felt_ns > since_ns)
            since_ns = felt_ns;
    }
    return since_ns;
}
