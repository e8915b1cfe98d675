/*
 * Locker - a process that locks the names of a cluster
 *
 * There are a thousand names in turn of each kind of lock. Its threads often want the same few of
 * them, and otherwise any, sometimes several reentrant ones by a multi lock. Each hold is recorded:
 * support/held.h. Failovers may make calls fail and lose holds; the process counts both.
 *
 * Threads: the main one of a process of its own.
 */
#ifndef RELOCK_TEST_LOCKER_H
#define RELOCK_TEST_LOCKER_H

#include "support/child.h"

#include <stdint.h>

#define LOCKER_LEASE_MS 6000

/* Kinds, as they are recorded. */
#define LOCKER_KIND_MAP(XX)           \
    XX(reentrant, relock_lock_new)    \
    XX(fair, relock_fairlock_new)     \
    XX(fenced, relock_fencedlock_new) \
    XX(spin, relock_spinlock_new)     \
    XX(plain, relock_plainlock_new)   \
    XX(write, relock_wrlock_new)

struct locker {
    const char *url;
    const char *ca_file; /* NULL: no TLS */
    const char *path;    /* of its records */
    const char *log;     /* what it writes to stderr goes there */
    int number;          /* its threads are "number.thread" */
    int n_threads;
    unsigned min_replicas;
};

/* Orders of the parent to a process whose threads have ended. */
enum locker_order {
    LOCKER_END,
    LOCKER_SWEEP_LINES, /* acquire and release each lock once that has a line */
    LOCKER_SWEEP,       /* the same, and each fair lock */
};

/* A child_fn, of a struct locker. Sends a number when it has connected, and works until the parent
 * sends one; then sends another when its threads have ended. After that it takes orders. It answers
 * the sweeps with the first result that is not RELOCK_OK, else with that; and LOCKER_END with the
 * time in ms that the end of the client took. Its status is 0 if nothing went wrong that no
 * failover explains. */
int locker_run(struct child *parent, void *locker);

#endif
