/*
 * Pulse - detects that the machine did not run this process for a while, and records it
 *
 * This counts as a fault: threads of the process may be late without other reason. The delay of a
 * single thread is not detected.
 *
 * Threads: the one that starts it.
 */
#ifndef RELOCK_TEST_PULSE_H
#define RELOCK_TEST_PULSE_H

#include "history.h"

#include <pthread.h>
#include <stdatomic.h>

struct pulse {
    pthread_t thread;
    struct history *history;
    int slot, life; /* slot of the fault: -1 affects all */
    uint64_t began_ns;
    atomic_bool over;
};

void pulse_start(struct pulse *pulse, struct history *history, int slot, int life);
void pulse_stop(struct pulse *pulse);

#endif
