/*
 * Gate - where one thread waits until it has reason to look again
 *
 * Opening is remembered, so one that comes before the thread has arrived lets it through; several
 * count as one. What there is to see stands elsewhere, under the mutex of whoever opens.
 *
 * Threads: wait from one, open from any; init while nobody else looks. It may go as soon as nobody
 * opens it any more, even if the thread that opened it under a mutex has not given that up yet.
 */
#ifndef RELOCK_GATE_H
#define RELOCK_GATE_H

#include "base/thread.h"

#include <stdatomic.h>

struct relock_gate {
    atomic_uint state;
};

void relock_gate_init(struct relock_gate *gate);
void relock_gate_open(struct relock_gate *gate);

/*
 * The same, with `mutex` held, which the thread that is let through is about to take: it is woken
 * when that is given up, so that it does not meet it.
 */
void relock_gate_open_under(struct relock_gate *gate, struct relock_mutex *mutex)
    RELOCK_REQUIRES(*mutex);

/* Goes through and closes the gate again. Returns false once `deadline_ms` has passed. */
bool relock_gate_wait(struct relock_gate *gate, uint64_t deadline_ms);

#endif
