/*
 * Excuses - the faults of a run that excuse what the checker would report otherwise
 *
 * A fault affects a process if it breaks the process's place or the server. Its effects last for a
 * while after it was mended. A fault of one of several servers has a place that no process has, so
 * it excuses none.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_CHAOS_EXCUSES_H
#define RELOCK_TEST_CHAOS_EXCUSES_H

#include "history.h"

#include <stdbool.h>

struct excuses {
    const struct history_record **at; /* by their beginnings */
    size_t n;
    uint64_t recovery_ns; /* how long their effects last after their end */
};

void excuses_make(struct excuses *excuses, const struct history_records *records,
                  uint64_t recovery_ns);
void excuses_free(struct excuses *excuses);

bool excuse_touches(const struct history_record *fault, int slot);

/* When the effects of all faults of this place that began before `to_ns` are over; at least
 * `from_ns`. */
uint64_t excuses_over_since_ns(const struct excuses *excuses, int slot, uint64_t from_ns,
                               uint64_t to_ns);

#endif
