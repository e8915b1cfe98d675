/*
 * Gate - one thread sleeps at it until another thread opens it
 *
 * A gate remembers that it was opened, so the order of opening and waiting does not matter; several
 * openings count as one. It carries no data: the reason for opening is stored elsewhere, under a
 * mutex of the opener.
 *
 * Threads: wait from one, open from any; init before others know the gate. It may be freed as soon
 * as no thread will open it any more, even if the last opener still holds the mutex of open_under.
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

/* Opens the gate while the caller holds `mutex`, which the waiting thread needs next. That thread
 * is woken only after the unlock, so that it does not run into the locked mutex. */
void relock_gate_open_under(struct relock_gate *gate, struct relock_mutex *mutex)
    RELOCK_REQUIRES(*mutex);

/*
 * For a thread that sleeps in poll(2) instead: between begin and end, an opener writes to the
 * eventfd. Begin returns false if the gate is open; end closes the gate and returns whether it was
 * open. An opener writes to the eventfd under the mutex of open_under, or under the mutex that
 * keeps the gate from being freed. Close the eventfd only when no opener can hold that mutex any
 * more.
 */
bool relock_gate_begin_poll(struct relock_gate *gate, int event_fd);
bool relock_gate_end_poll(struct relock_gate *gate);

/* Waits until the gate is open and closes it again. Returns false once `deadline_ms` has passed. */
bool relock_gate_wait(struct relock_gate *gate, uint64_t deadline_ms);

#endif
