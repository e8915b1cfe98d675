/*
 * Rw_faults - both sides of a read/write lock behind a proxy
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_RW_FAULTS_H
#define RELOCK_TEST_RW_FAULTS_H

#include "faults.h"
#include "support/sides.h"

/* A side, and how its commands begin. */
struct side {
    struct relock_lock *lock;
    const char *name;   /* of its scripts: "read", "write" */
    const char *extend; /* which the write side shares with reentrant locks */
};

/* Handles of a client whose leases are such that no end of one is waited for: what is gone was
 * released. */
struct sides rw_sides(struct faults *t, struct side side[2], uint64_t command_timeout_ms);

/* The next command of that side: "lock 1 orders", say. */
struct proxy_rule *rw_next(struct faults *t, enum proxy_deed deed, const struct side *side,
                           const char *words);

/* The count of the only hold that Redis has, -1 when there is none. */
long long rw_count(struct faults *t);

/* What the owner, this thread, and Redis think of it. Each level that is read has a key. */
void rw_has_levels(struct faults *t, const struct side *side, unsigned ours, long long redis);

/* Waits until no key is left. Nothing was lost. */
void rw_is_free(struct faults *t);

#endif
