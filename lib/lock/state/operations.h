/*
 * Operations - the commands of a kind of lock, as functions that the core calls
 *
 * An operation talks to the server that has the lock, or to several, and reports the
 * outcome in an answer. The core does all that follows, the same for every kind: counting levels,
 * keeping and renewing leases, losing, handing off and settling holds.
 *
 * Threads: the calling thread, unless an operation says otherwise, with the mutex of the client
 * held; the operation unlocks it while it waits for an answer.
 */
#ifndef RELOCK_OPERATIONS_H
#define RELOCK_OPERATIONS_H

#include "lock/state/verdict.h"
#include "redis/server/server.h" /* RELOCK_WHY_MAX */

#include <stdbool.h>
#include <stdint.h>

struct relock_acquire;
struct relock_claim;
struct relock_client;
struct relock_hold;
struct relock_inspection;
struct relock_lock;

struct relock_answer {
    /* from the core */
    uint64_t sent_ms; /* the present time; an operation that repeats its command sets it anew */
    char *why;        /* RELOCK_WHY_MAX bytes, "": filled with a failure */

    /* from the operation, which sets only the fields that apply; all begin as 0 */
    enum relock_verdict verdict;
    int result;      /* RELOCK_OK, or a failure; a failure with DONE: the grant is useless */
    bool unanswered; /* a command may have run, or may yet run, without an answer */
    uint64_t valid_until_ms; /* granted or extended: certain until then */
    unsigned acked_replicas; /* granted */
    struct relock_busy busy; /* BUSY: the reason */
    uint64_t pause_ms;       /* BUSY: before a poller asks again; 0: the core decides */
    uint64_t place;      /* released: in the line, where the client waits again; see verdict.h */
    int64_t n_receivers; /* released: of the message to waiters; -1: the server refused it */
    bool is_announced;   /* released: each waiter gets that message */
    bool is_reported;    /* a failure or a loss was logged and counted by calls inside */
};

struct relock_operations {
    /* One attempt at the first level, under the number of the hold. */
    void (*ask)(struct relock_acquire *acquire, struct relock_hold *hold,
                struct relock_answer *answer);

    /* The hold has begun. May unlock the mutex. NULL: nothing follows. */
    void (*begin)(struct relock_client *client, struct relock_hold *hold);

    /* One level more than the hold has. */
    void (*nest)(struct relock_acquire *acquire, struct relock_hold *hold,
                 struct relock_answer *answer);

    /* A level is released. Tells the servers how many are left; with the last one the lock is free.
     */
    void (*release)(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms,
                    struct relock_answer *answer);

    /* A level ended without `release`: the hold is lost, or another command of the owner got no
     * answer in time. Asks no server if `deadline_ms` is 0. NULL: the servers need not know. */
    void (*drop_level)(struct relock_client *client, struct relock_hold *hold,
                       uint64_t deadline_ms);

    /* A lease of `lease_ms` from now on. */
    void (*extend)(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                   uint64_t deadline_ms, struct relock_answer *answer);

    /*
     * The holder of the lock, as the servers report it, and the levels of the owner of `claim`.
     * Under no mutex. Returns RELOCK_OK, or a failure and `why`, RELOCK_WHY_MAX bytes.
     */
    int (*inspect)(struct relock_lock *lock, const struct relock_claim *claim,
                   struct relock_inspection *inspection, char *why);

    /*
     * For a kind whose holds do not know it themselves: returns until when the hold is certain, and
     * loses the hold if it no longer stands. Asks no server; may unlock the mutex. NULL: holds
     * know.
     */
    uint64_t (*check)(struct relock_client *client, struct relock_hold *hold);

    /* A renewal is due. The I/O thread; does not wait for the answer. */
    void (*renew)(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms);

    /* No owner needs the hold any more: releases all that the servers may have of it in the
     * background. Sets the count to 0. The hold ends with the release, or at once. */
    void (*let_go)(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms);

    /* The hold was lost, or let go while a command of its owner was in flight: releases it in the
     * background on servers that may still have it. NULL: there are none. */
    void (*lost)(struct relock_client *client, struct relock_hold *hold);

    /* From now on the watchdog renews the hold, or no longer does. Called at the end of a command
     * of the owner, while the hold is still busy. NULL: the hold alone has this state. */
    void (*keep)(struct relock_client *client, struct relock_hold *hold, bool renewed);
};

#endif
