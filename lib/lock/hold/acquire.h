/*
 * Acquire - the state of one call that acquires a lock, and its deadlines
 *
 * The struct is on the stack of the call.
 *
 * Threads: the calling thread, with the mutex of the client held.
 */
#ifndef RELOCK_ACQUIRE_H
#define RELOCK_ACQUIRE_H

#include "base/clock.h"
#include "lock/state/cancel.h"
#include "lock/state/client.h"
#include "lock/state/kind.h"
#include "lock/state/lock.h"
#include "lock/state/resource.h"
#include "redis/server/server.h"

#include <relock.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The first pause of a waiter that polls, unless the program sets other pauses. The waiter also
 * pauses after a release by an owner of this process: no message announces that release, so other
 * processes get their turn only if they find the lock free.
 */
#define RELOCK_POLL_FIRST_MS 2

struct relock_acquire {
    struct relock_lock *lock;
    struct relock_client *client; /* of `lock`, like `resource` */
    struct relock_resource *resource;
    struct relock_waiter waiter;
    const struct relock_how *how;
    struct relock_cancel *stop; /* of the call that collects several locks; NULL: none */
    bool is_vouched; /* constant: that call's owner had a hold on the client of the call */
    struct relock_cancel_wait stop_wait;
    uint64_t now_us;      /* the clock, as read last: at the begin, and after all that takes time */
    uint64_t asked_us;    /* when its last attempt began */
    uint64_t awaits_us;   /* when it began to wait for a deferred release; 0: it did not */
    uint64_t joined_us;   /* when it began to ask or to wait for a first level; 0: it did not */
    uint64_t lease_ms;    /* to ask for */
    uint64_t deadline_ms; /* of the wait */
    uint64_t give_up_ms;  /* of a try: its commands are given up then */
    bool has_slept;       /* at least once as the head of the queue */
    uint64_t pause_ms;    /* of a poller: between two attempts */
    void (*stop_listening)(struct relock_acquire *acquire); /* at the end of the wait, or NULL */
    bool keeps_channels; /* set by a layer above: its listeners keep the channels subscribed */
    bool stands;         /* set by a layer above: a listener stands in the line of a lock */
    bool contended;      /* another owner was in the way */
    bool joins;          /* a refused attempt joins the queue, or the line, of the lock */
    bool listens;        /* `joins`, for a fair waiter that listens to its channel */
    struct relock_line_view sent; /* the line when its last attempt was sent */
    uint64_t write_number;        /* of the owner's write hold, if this is for reading; 0: none */
    struct relock_hold *queued;   /* its number is in the queue in Redis; kept between attempts */
    struct relock_hold *hold;     /* the result: a reference */
    uint64_t valid_until_ms;      /* of `hold`, by the answer */
    const char *failed_name;  /* of a collection: the lock that could not be acquired; or NULL */
    char why[RELOCK_WHY_MAX]; /* of a failure, for the log */
};

/* Reads the clock. Call it after each wait and each command. */
static inline void relock_acquire_read_clock(struct relock_acquire *acquire)
{
    acquire->now_us = relock_clock_now_us();
}

static inline uint64_t relock_acquire_now_ms(const struct relock_acquire *acquire)
{
    return acquire->now_us / 1000;
}

/* When a call that asks at `now_ms` ends: at its deadline, or at `give_up_ms`, but not before Redis
 * had its minimum of time to answer. */
uint64_t relock_acquire_end_ms(const struct relock_acquire *acquire, uint64_t now_ms);

/* When the call gives up a command that is sent at `now_ms` and may take `timeout_ms`. */
uint64_t relock_acquire_within_ms(const struct relock_acquire *acquire, uint64_t now_ms,
                                  uint64_t timeout_ms);

/* As relock_acquire_within_ms, for a command that may take `command_timeout_ms`. */
uint64_t relock_acquire_limit_ms(const struct relock_acquire *acquire, uint64_t now_ms);

/* When the wait in the queue ends. While no owner is known to hold the lock, this is a little later
 * than the deadline, so that even a short wait is a real attempt. */
uint64_t relock_acquire_until_ms(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex);

/* The result at the deadline: RELOCK_E_CONN if no owner was known to hold the lock, and Redis owes
 * an answer; else RELOCK_TIMEOUT (a try: RELOCK_BUSY). Redis owes no answer if no attempt is in
 * flight: a release has woken another process, and the message of that one's release will follow.
 */
int relock_acquire_be_late(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* The permits that it wants, of a semaphore. */
static inline uint64_t relock_acquire_n_permits(const struct relock_acquire *acquire)
{
    return acquire->how->permits > 0 ? acquire->how->permits : 1;
}

/* Keeps the reason of a failure for the log. */
void relock_acquire_keep_why(struct relock_acquire *acquire, const char *why);

/* The call would wait for its own owner, which has what `why` says. Returns RELOCK_E_DEADLOCK. */
int relock_acquire_refuse(struct relock_acquire *acquire, const char *why);

#define RELOCK_WHY_NESTED "this owner holds it already (RELOCK_NON_REENTRANT)"

#endif
