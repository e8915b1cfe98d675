/*
 *     state        next         when
 *     CLOSED       WAITED_AT    the waiting thread is about to sleep
 *                  OPEN         another thread opens it
 *     WAITED_AT    OPEN         another thread opens it, and wakes the sleeper
 *                  CLOSED       the deadline of the sleeper has passed
 *     OPEN         CLOSED       the waiting thread has seen it
 *     CLOSED       POLLED + fd  the waiting thread is about to poll that eventfd, among others
 *     POLLED + fd  OPEN         another thread opens it, and writes to the eventfd
 *                  CLOSED       the waiting thread no longer polls
 */
#include "base/thread.h"

#include "base/clock.h"

#include <sys/eventfd.h>

enum state { CLOSED, OPEN, WAITED_AT, POLLED };

void relock_gate_init(struct relock_gate *gate)
{
    atomic_init(&gate->state, CLOSED);
}

/* Returns the state before. After that the gate may be gone. */
static unsigned set_open(struct relock_gate *gate)
{
    relock_tsan_release(gate);
    return atomic_exchange(&gate->state, OPEN);
}

static void wake_poller(unsigned was)
{
    if (was >= POLLED)
        (void)eventfd_write((int)(was - POLLED), 1);
}

void relock_gate_open(struct relock_gate *gate)
{
    unsigned was = set_open(gate);

    if (was == WAITED_AT)
        relock_futex_wake(&gate->state);
    wake_poller(was);
}

void relock_gate_open_under(struct relock_gate *gate, struct relock_mutex *mutex)
{
    unsigned was = set_open(gate);

    if (was == WAITED_AT)
        relock_mutex_wake_after(mutex, &gate->state);
    wake_poller(was); /* after the unlock, the eventfd might be closed */
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
    return relock_gate_end_poll(gate); /* if it was opened just at the deadline, that counts */
}

bool relock_gate_begin_poll(struct relock_gate *gate, int event_fd)
{
    unsigned was = CLOSED;

    return atomic_compare_exchange_strong(&gate->state, &was, POLLED + (unsigned)event_fd);
}

bool relock_gate_end_poll(struct relock_gate *gate)
{
    bool opened = atomic_exchange(&gate->state, CLOSED) == OPEN;

    if (opened)
        relock_tsan_acquire(gate);
    return opened;
}
