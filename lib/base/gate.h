/*
 * Gate - where one thread waits until it has reason to look again
 *
 * Opening is remembered, so one that comes before the thread has arrived lets it through; several
 * count as one. What there is to see stands elsewhere, under the mutex of whoever opens.
 *
 * Threads: wait from one, open from any; init and deinit while nobody else looks. Its mutex is a
 * leaf: it may be taken under another, and none is taken under it.
 */
#ifndef RELOCK_GATE_H
#define RELOCK_GATE_H

#include "base/thread.h"

struct relock_gate {
    struct relock_mutex mutex;
    struct relock_cond opened;
    struct {
        bool open;
    } guarded; /* by mutex */
};

void relock_gate_init(struct relock_gate *gate);
void relock_gate_deinit(struct relock_gate *gate);
void relock_gate_open(struct relock_gate *gate);

/* Goes through and closes the gate again. Returns false once `deadline_ms` has passed. */
bool relock_gate_wait(struct relock_gate *gate, uint64_t deadline_ms);

#endif
