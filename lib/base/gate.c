/*
 *     state        next         when
 *     CLOSED       WAITED_AT    the waiting thread is about to sleep
 *                  OPEN         another thread opens it
 *     WAITED_AT    OPEN         another thread opens it, and wakes the sleeper
 *                  CLOSED       the deadline of the sleeper has passed
 *     OPEN         CLOSED       the waiting thread has seen it
 */
#include "base/gate.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/tsan.h"

enum state { CLOSED, OPEN, WAITED_AT };

void relock_gate_init(struct relock_gate *gate)
{
    atomic_init(&gate->state, CLOSED);
}

/* Returns whether the waiting thread may be asleep and has to be woken. */
static bool set_open(struct relock_gate *gate)
{
    relock_tsan_release(gate);
    return atomic_exchange(&gate->state, OPEN) == WAITED_AT;
}

void relock_gate_open(struct relock_gate *gate)
{
    if (set_open(gate))
        relock_futex_wake(&gate->state);
}

void relock_gate_open_under(struct relock_gate *gate, struct relock_mutex *mutex)
{
    if (set_open(gate))
        relock_mutex_wake_after(mutex, &gate->state);
}

/* Announces that this thread is about to sleep. Returns false if the gate is open. */
static bool begin_to_wait(struct relock_gate *gate)
{
    unsigned was = CLOSED;

    return atomic_compare_exchange_strong(&gate->state, &was, WAITED_AT) || was == WAITED_AT;
}

bool relock_gate_wait(struct relock_gate *gate, uint64_t deadline_ms)
{
    bool opened = atomic_load(&gate->state) == OPEN;

    while (!opened) {
        uint64_t left_ms = RELOCK_NEVER;

        if (deadline_ms != RELOCK_NEVER)
            left_ms = relock_clock_left(relock_clock_now_ms(), deadline_ms);
        if (left_ms == 0)
            break;
        if (begin_to_wait(gate))
            relock_futex_wait(&gate->state, WAITED_AT, left_ms);
        opened = atomic_load(&gate->state) == OPEN;
    }
    /* If the gate was opened just at the deadline, that still counts. */
    opened = atomic_exchange(&gate->state, CLOSED) == OPEN;
    if (opened)
        relock_tsan_acquire(gate);
    return opened;
}
