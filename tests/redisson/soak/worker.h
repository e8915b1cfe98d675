/*
 * Worker - a process of the soak that takes locks of all kinds through the library
 *
 * The other half of java/Soak.java, which does the same in Redisson. Each of its threads comes for
 * a lock, again and again, by lock, trylock or timedlock, nests now and then, and writes each hold
 * down: held.h.
 *
 * Threads: the main one of a process of its own.
 */
#ifndef RELOCK_TEST_SOAK_WORKER_H
#define RELOCK_TEST_SOAK_WORKER_H

#include <stdint.h>

/* Kinds and the names of their locks: the two sides of a read/write lock have one. */
#define WORKER_KIND_MAP(XX)                     \
    XX(reentrant, relock_lock_new, "reentrant") \
    XX(fenced, relock_fencedlock_new, "fenced") \
    XX(spin, relock_spinlock_new, "spin")       \
    XX(fair, relock_fairlock_new, "fair")       \
    XX(read, relock_rdlock_new, "rw")           \
    XX(write, relock_wrlock_new, "rw")

#define WORKER_WATCHDOG_MS 5000

struct worker {
    const char *url;
    const char *path; /* of what it writes */
    const char *who;  /* its name; its threads have a number behind it */
    uint64_t until_ns;
};

/* Works until then. Returns the status to exit with: 0 when nothing went wrong. */
int worker_run(const struct worker *worker);

uint64_t worker_now_ns(void);

#endif
