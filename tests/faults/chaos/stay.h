/*
 * Stay - the steps of a thread with a lock, from the grant to the last release
 *
 * It works, nests and extends. A writer sometimes reads too, and continues to read after releasing
 * the write side. A reader sometimes tries to write, which must be refused.
 *
 * Threads: each toiler is one.
 */
#ifndef RELOCK_TEST_STAY_H
#define RELOCK_TEST_STAY_H

#include "job.h"

#include <relock.h>

/* One attempt to acquire a lock, and its outcome. */
struct stay {
    struct toiler *toiler;
    struct relock_lock *lock;
    uint64_t lease_ms;            /* 0: renewed */
    struct history_record record; /* the common part of all records */
};

/* Begins the attempt. `sort` is that of the name or of the side. */
struct stay stay_new(struct toiler *toiler, int lock, enum history_sort sort);

/* Acquires the lock, and records it. */
int stay_take(struct stay *stay, const struct relock_how *how);

/* The whole stay, until the lock is released. */
void stay_be(struct stay *stay);

#endif
