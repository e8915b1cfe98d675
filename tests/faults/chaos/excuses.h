/*
 * Excuses - the faults of a run, which excuse what the checker would report otherwise
 *
 * A fault touches a process if it breaks the process's own place or the server. The process feels
 * it for a while after it was mended. A fault of one of several servers has a place that no
 * process has, so it excuses nobody.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_CHAOS_EXCUSES_H
#define RELOCK_TEST_CHAOS_EXCUSES_H

#include "history.h"

#include <stdbool.h>

struct excuses {
    const struct history_record **at; /* by when they began */
    size_t n;
    uint64_t recovery_ns; /* for how long they are felt after their end */
};

void excuses_make(struct excuses *excuses, const struct history_records *records,
                  uint64_t recovery_ns);
void excuses_free(struct excuses *excuses);

bool excuse_touches(const struct history_record *fault, int slot);

/* From when on nothing was felt in that place any more, of what broke before `to_ns`; not before
 * `from_ns`. */
uint64_t excuses_over_since_ns(const struct excuses *excuses, int slot, uint64_t from_ns,
                               uint64_t to_ns);

#endif
