/*
 * Kind - what one kind of lock does in its own way
 *
 * All kinds share the calls, the holds, the watchdog and the waiting. What differs is here, and
 * most of it is data: the scripts, what stands in Redis, and who may go when.
 *
 * Threads: any; all of it is constant.
 */
#ifndef RELOCK_KIND_H
#define RELOCK_KIND_H

#include "redis/script.h"

#include <relock.h>

#include <stdbool.h>

struct relock_acquire;

/* The calls of a lock that is no key in Redis. As the public ones, with arguments checked. */
struct relock_calls {
    int (*acquire)(struct relock_lock *lock, const struct relock_how *how,
                   struct relock_grant *grant);
    int (*release)(struct relock_lock *lock, uint64_t owner);
    int (*extend)(struct relock_lock *lock, uint64_t owner, uint64_t lease_ms);
    int (*check)(struct relock_lock *lock, uint64_t owner, struct relock_grant *grant);
};

struct relock_kind {
    const struct relock_script *lock;
    const struct relock_script *unlock;
    const struct relock_script *renew;
    const struct relock_script *extend;
    const struct relock_script *inspect;
    const struct relock_script *force_unlock;

    const char *channel;      /* the prefix of its name; NULL: releases are not announced */
    const char *message;      /* that says "free" */
    const char *field_suffix; /* behind the number of a hold */
    const char *side;         /* of a read/write lock, for the scripts that know both; else NULL */

    bool has_token_only; /* in Redis a hold is a token: no client, no number, no count */
    bool is_polled;      /* not all releases are announced: who waits asks again and again */
    bool is_passed_on;   /* from thread to thread of the process */
    bool is_shared;      /* by owners that hold it together */
    bool is_queued;      /* in Redis, each waiter for itself, under the number of its hold to be */

    const struct relock_kind *home; /* the side that has the name; NULL: this one */

    /*
     * What the owner holds on the other side of a read/write lock: NULL where there is none. With
     * the mutex of the client held. Returns RELOCK_OK, or what the call returns.
     */
    int (*check_other_side)(struct relock_acquire *acquire);

    const struct relock_calls *calls; /* of a multi lock; else NULL */
};

extern const struct relock_kind relock_kind_reentrant;

#endif
