/*
 * Worker - a process of the soak that takes locks of all kinds through the library
 *
 * The counterpart of java/Soak.java. Each of its threads repeatedly acquires a lock, by lock,
 * trylock or timedlock, nests at times, and records each hold: support/held.h.
 *
 * Threads: the main one of a process of its own.
 */
#ifndef RELOCK_TEST_SOAK_WORKER_H
#define RELOCK_TEST_SOAK_WORKER_H

#include <stdatomic.h>
#include <stdint.h>

/* Kinds and the names of their locks: the two sides of a read/write lock share one. */
#define WORKER_KIND_MAP(XX)                     \
    XX(reentrant, relock_lock_new, "reentrant") \
    XX(fenced, relock_fencedlock_new, "fenced") \
    XX(spin, relock_spinlock_new, "spin")       \
    XX(fair, relock_fairlock_new, "fair")       \
    XX(read, relock_rdlock_new, "rw")           \
    XX(write, relock_wrlock_new, "rw")

#define WORKER_COUNT(kind, make, lock) +1
#define WORKER_N_KINDS (WORKER_KIND_MAP(WORKER_COUNT))

#define WORKER_WATCHDOG_MS 5000

struct worker {
    const char *url;
    const char *path;           /* path of its records */
    const char *who;            /* its name; its threads append a number */
    const atomic_bool *is_over; /* in memory that all processes share */
};

/* Works until it is over. Returns the exit status: 0 if nothing went wrong. */
int worker_run(const struct worker *worker);

#endif
