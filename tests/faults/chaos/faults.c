#include "faults.h"

#include <stdlib.h>

static int compare_begins(const void *one, const void *other)
{
    const struct history_record *a = *(const struct history_record *const *)one;
    const struct history_record *b = *(const struct history_record *const *)other;

    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

void faults_make(struct faults *faults, const struct history_records *records, uint64_t recovery_ns)
{
    *faults = (struct faults){.recovery_ns = recovery_ns};
    faults->at = malloc((records->n + 1) * sizeof(const struct history_record *));
    if (!faults->at)
        abort();
    for (size_t i = 0; i < records->n; i++)
        if (records->at[i].kind == HISTORY_FAULT)
            faults->at[faults->n++] = &records->at[i];
    qsort(faults->at, faults->n, sizeof(*faults->at), compare_begins);
}

void faults_free(struct faults *faults)
{
    free(faults->at);
    *faults = (struct faults){0};
}

bool fault_touches(const struct history_record *fault, int slot)
{
    return fault->slot < 0 || fault->slot == slot;
}

uint64_t faults_whole_since_ns(const struct faults *faults, int slot, uint64_t from_ns,
                               uint64_t to_ns)
{
    uint64_t since_ns = from_ns;

    for (size_t i = 0; i < faults->n && faults->at[i]->from_ns < to_ns; i++) {
        uint64_t felt_ns = faults->at[i]->to_ns + faults->recovery_ns;

        if (fault_touches(faults->at[i], slot) && felt_ns > since_ns)
            since_ns = felt_ns;
    }
    return since_ns;
}
