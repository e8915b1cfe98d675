/*
 * Kind - how one kind of lock differs from the others
 *
 * All kinds share the calls, the holds, the watchdog and the waiting. A kind is mostly data: its
 * scripts, its format in Redis, and the rules of its queue.
 *
 * Threads: any; all of it is constant.
 */
#ifndef RELOCK_KIND_H
#define RELOCK_KIND_H

#include "lock/state/operations.h"
#include "redis/server/script.h"

#include <relock.h>

#include <stdbool.h>

struct relock_kind {
    const struct relock_script *lock;
    const struct relock_script *unlock;
    const struct relock_script *renew;
    const struct relock_script *extend;
    const struct relock_script *inspect;
    const struct relock_script *force_unlock;

    /* A command that tells whether a hold is there: its reply is 1, or the token of the hold. NULL:
     * only the script `renew` tells. */
    const struct relock_script *look;

    const char *channel;      /* the prefix of its name; NULL: releases are not published */
    const char *message;      /* that announces a release */
    const char *field_suffix; /* follows the number of a hold */
    const char *side; /* of a read/write lock, for scripts that serve both sides; else NULL */

    bool has_token_only; /* in Redis a hold is a token without client, number and count */
    bool is_polled;      /* not all releases are published, so waiters poll */
    bool is_watched;     /* while Redis reports changes, waiters sleep instead: see vigil.h */
    bool is_handed_off;  /* between threads of the process, without Redis */
    bool is_cached;      /* with `keep_ms`: its script recalls a hold that is cached elsewhere */
    bool is_shared;      /* several owners may hold it at the same time */
    bool is_composite;   /* a hold stands for holds of other locks */
    bool is_collection;  /* a composite whose owner holds each of the other locks itself */
    bool is_queued;      /* each waiter has its own place in a queue in Redis */

    const struct relock_kind
        *primary; /* of a secondary side: the side that has the name; else NULL */

    /*
     * Looks at the owner's hold on the other side of a read/write lock, with the mutex of the
     * client held. Returns RELOCK_OK, or the result that the call ends with. NULL: there is no
     * other side.
     */
    int (*check_other_side)(struct relock_acquire *acquire);

    const struct relock_operations *operations;
};

/* Whether its waiting clients stand in a line. They do if each release is published, and the
 * waiters have no queue of their own in Redis. */
static inline bool relock_kind_has_line(const struct relock_kind *kind)
{
    return kind->channel && !kind->is_queued;
}

#endif
