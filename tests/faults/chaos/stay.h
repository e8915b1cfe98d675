/*
 * Stay - the deeds of a thread with a lock, from the grant to the last release
 *
 * It works, nests, extends. A writer at times reads too, and goes on reading after it stopped
 * writing; a reader at times asks to write, which must be refused.
 *
 * Threads: each toiler is one.
 */
#ifndef RELOCK_TEST_STAY_H
#define RELOCK_TEST_STAY_H

#include "job.h"

#include <relock.h>

/* One attempt to take a lock, and what comes of it. */
struct stay {
    struct toiler *toiler;
    struct relock_lock *lock;
    uint64_t lease_ms;            /* 0: renewed */
    struct history_record record; /* what is the same in all */
};

/* Begins the attempt: `sort` is that of the name, or of the side. */
struct stay stay_new(struct toiler *toiler, int lock, enum history_sort sort);

/* Takes the lock, and writes it down. */
int stay_take(struct stay *stay, const struct relock_how *how);

/* All of it, until the lock is given up. */
void stay_be(struct stay *stay);

#endif
