/*
 * Pulse - notices that the machine did not run this process for a while, and writes that down
 *
 * It is a fault like others: threads of the process may be late, and nobody broke anything.
 * It does not notice the delay of a single thread.
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
    int slot, life; /* of the fault: -1 as a slot touches all */
    uint64_t began_ns;
    atomic_bool over;
};

void pulse_start(struct pulse *pulse, struct history *history, int slot, int life);
void pulse_stop(struct pulse *pulse);

#endif
