/*
 * Sleeper - a waiter that slept though the lock was free
 *
 * Whether a lock is free is seen from outside, for who holds it is not always told: a process that
 * was killed may have been given it, and a call that failed may have left something behind. What
 * was seen free all the time was not, if somebody got it in between; the time before and the time
 * after are looked at alone. Of the time that is left a waiter had no chance while its process, its
 * network or the server were broken, nor for a while after.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_SLEEPER_H
#define RELOCK_TEST_SLEEPER_H

#include "attempt.h"

struct sleeper {
    const struct history_record *wait; /* what it asked for */
    const struct history_record *free; /* when the lock was seen free */
    uint64_t from_ns, to_ns;           /* it slept, and had no reason to */
};

typedef void sleeper_fn(const struct sleeper *sleeper, void *arg);

/* Tells of each that slept longer than `longest_ns`; a fault is felt until `recovery_ns` after. */
void sleepers_find(const struct history_records *records, const struct attempts *attempts,
                   uint64_t longest_ns, uint64_t recovery_ns, sleeper_fn *found, void *arg);

#endif
