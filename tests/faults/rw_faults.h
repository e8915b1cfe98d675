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
    const char *name;   /* how its scripts begin: "read", "write" */
    const char *extend; /* the write side shares it with reentrant locks */
};

/* Handles of a client with leases that do not end in a test: a missing key was released. */
struct sides rw_sides(struct faults *t, struct side side[2], uint64_t command_timeout_ms);

/* The next command of this side: "lock 1 orders", say. */
struct proxy_rule *rw_next(struct faults *t, enum proxy_deed deed, const struct side *side,
                           const char *words);

/* The count of the only hold in Redis, -1 if there is none. */
long long rw_count(struct faults *t);

/* Checks the levels of the owner, this thread, here and in Redis. Each read level has a key. */
void rw_has_levels(struct faults *t, const struct side *side, unsigned ours, long long redis);

/* Waits until no key is left. No hold may have been lost. */
void rw_is_free(struct faults *t);

#endif
