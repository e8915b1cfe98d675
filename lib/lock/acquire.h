/*
 * Acquire - one call that takes a lock, while it lasts
 *
 * Threads: the one that makes the call, with the mutex of the client held.
 */
#ifndef RELOCK_ACQUIRE_H
#define RELOCK_ACQUIRE_H

#include "lock/lock.h"
#include "lock/request.h"

struct relock_acquire {
    struct relock_lock *lock;
    struct relock_client *client; /* of the lock, like the site */
    struct relock_site *site;
    struct relock_waiter waiter;
    const struct relock_how *how;
    struct relock_cancel *stop; /* of the multi lock that this is a member of; NULL: of none */
    struct relock_cancel_wait stop_wait;
    uint64_t lease_ms;          /* to ask for */
    uint64_t deadline_ms;       /* of the waiting */
    bool has_slept;             /* as the head */
    uint64_t pause_ms;          /* between two tries, where who waits polls */
    bool listens;               /* to releases on the servers of a red lock */
    bool contended;             /* it did not get the lock at once */
    uint64_t write_number;      /* number of the owner's write hold, for a read level; 0: none */
    struct relock_hold *queued; /* has a place in Redis' queue, and goes on asking for it */
    struct relock_hold *hold;   /* what it got, a reference */
    char why[RELOCK_WHY_MAX];   /* what the log is told of a failure */
};

/*
 * Takes a lock for a multi lock, whose end of waiting `stop` is, or for itself: NULL. What begins
 * for a multi lock tells nobody of its loss but that, and a fixed lease is renewed until
 * relock_holds_keep_no_more: the rest may take longer. As relock_acquire, arguments checked.
 */
int relock_acquire_as(struct relock_lock *lock, const struct relock_how *how,
                      struct relock_cancel *stop, struct relock_grant *grant);

/* What is asked for a hold to have `count` levels. */
void relock_acquire_request(const struct relock_acquire *acquire, struct relock_request *request,
                            const struct relock_hold *hold, unsigned count);

/*
 * The owner has this hold, and wants a level more. The mutex is given up meanwhile.
 *
 * Returns what the call returns; with RELOCK_OK `acquire->hold`.
 */
int relock_acquire_nest(struct relock_acquire *acquire, struct relock_hold *hold)
    RELOCK_REQUIRES(acquire->client->mutex);

/* When a wait that asks now ends: at its deadline, and Redis has time for an answer. */
uint64_t relock_acquire_least_ms(const struct relock_acquire *acquire, uint64_t now_ms);

/* Until when a command of this call that is sent now is waited for. */
uint64_t relock_acquire_limit_ms(const struct relock_acquire *acquire, uint64_t now_ms);

/* Whether it does not wait for other owners. */
bool relock_acquire_tries(const struct relock_acquire *acquire);

/* Until when it waits in the queue: somewhat longer as long as it is not known whether anybody has
 * the lock, for a short wait is a real attempt, too. */
uint64_t relock_acquire_until_ms(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex);

/* The result when its time is over: RELOCK_TIMEOUT, or RELOCK_BUSY, only if another owner was known
 * to have the lock; else RELOCK_E_CONN. */
int relock_acquire_be_late(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* For the log, when the call ends in a failure. */
void relock_acquire_keep_why(struct relock_acquire *acquire, const char *why);

/*
 * The waiter asks Redis: the head, or a reader for the first time. The mutex is given up meanwhile.
 *
 * Returns RELOCK_OK with `acquire->hold`, RELOCK_BUSY when another owner has the lock, RELOCK_AGAIN
 * when the caller's has it meanwhile, by another thread, or the failures of asking: then nothing is
 * held, and what Redis may have granted is settled.
 */
int relock_acquire_ask(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

#endif
