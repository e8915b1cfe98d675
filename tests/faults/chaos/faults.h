/*
 * Faults - what was broken when, as an excuse
 *
 * A process is touched by what breaks its own place, and by what breaks the server. It feels that
 * for a while after it was mended. What breaks one of several servers has a place that no process
 * has: it is no excuse for anybody.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_CHAOS_FAULTS_H
#define RELOCK_TEST_CHAOS_FAULTS_H

#include "history.h"

#include <stdbool.h>

struct faults {
    const struct history_record **at; /* by when they began */
    size_t n;
    uint64_t recovery_ns; /* for how long they are felt after their end */
};

void faults_make(struct faults *faults, const struct history_records *records,
                 uint64_t recovery_ns);
void faults_free(struct faults *faults);

bool fault_touches(const struct history_record *fault, int slot);

/* From when on nothing was felt in that place any more, of what broke before `to_ns`; not before
 * `from_ns`. */
uint64_t faults_whole_since_ns(const struct faults *faults, int slot, uint64_t from_ns,
                               uint64_t to_ns);

#endif
