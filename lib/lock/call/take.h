/*
 * Take - the calls that take a lock: relock_acquire and its short forms
 *
 * Threads: the calling thread; under no mutex, unless a function requires that of the client.
 */
#ifndef RELOCK_TAKE_H
#define RELOCK_TAKE_H

#include "lock/hold/acquire.h"

/*
 * As relock_acquire, with checked arguments.
 *
 * If a call collects several locks and acquires this one for them, `stop` is its cancel and ends
 * the wait; else NULL. A loss is then reported only to the observers of the hold, and a fixed lease
 * is renewed until relock_levels_stop_keeping, for the other locks may take longer. `is_vouched`:
 * the owner had a hold on the client of that call. If that call is a try, its commands are
 * given up at `give_up_ms`; else RELOCK_NEVER.
 */
int relock_take(struct relock_lock *lock, const struct relock_how *how, struct relock_cancel *stop,
                bool is_vouched, uint64_t give_up_ms, struct relock_grant *grant);

/*
 * The steps of relock_take for an asynchronous call (async_acquire.c), in this order:
 *
 *   check    returns a failure if the call must be refused
 *   init     fills the state of the call
 *   join     begins the wait for a first level. Returns RELOCK_JOINED, the result of the call, or
 *            RELOCK_AGAIN as relock_waiter_ended()
 *   leave    after RELOCK_JOINED: ends the wait with its result
 *   count    counts the call
 *   report   returns the hold to the caller; or names the lock that was not acquired, and logs why
 */
#define RELOCK_JOINED 2

int relock_take_check(const struct relock_lock *lock, const struct relock_how *how);
void relock_take_init(struct relock_acquire *acquire, struct relock_lock *lock,
                      const struct relock_how *how, struct relock_cancel *stop,
                      uint64_t give_up_ms);
int relock_take_join(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);
void relock_take_leave(struct relock_acquire *acquire, int result)
    RELOCK_REQUIRES(acquire->client->mutex);
void relock_take_count(struct relock_acquire *acquire, int result)
    RELOCK_REQUIRES(acquire->client->mutex);
void relock_take_report(struct relock_acquire *acquire, int result, struct relock_grant *grant)
    RELOCK_REQUIRES(acquire->client->mutex);

/*
 * The steps of a wait in the queue of a resource. A blocking call takes all of them in wait_turn(),
 * an asynchronous call one by one (async_acquire.c). They may unlock the mutex meanwhile.
 *
 * Whether something other than a grant by Redis has ended the wait:
 *
 * Returns RELOCK_BUSY if the wait goes on; RELOCK_OK with `acquire->hold` after a hand-off,
 * RELOCK_AGAIN if the owner has got the lock by another thread, or the result of the call.
 */
int relock_waiter_ended(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* The next step of the call. */
enum relock_waiter_step {
    RELOCK_WAITER_ENDS,   /* it returns the result */
    RELOCK_WAITER_LOOKS,  /* it looks again at once */
    RELOCK_WAITER_SLEEPS, /* until its gate opens, or until a time */
    RELOCK_WAITER_ASKS,   /* Redis */
};

/* After relock_waiter_ended said RELOCK_BUSY: sets `*until_ms` if the call sleeps, and `*result` if
 * it ends. */
enum relock_waiter_step relock_waiter_next(struct relock_acquire *acquire, uint64_t *until_ms,
                                           int *result) RELOCK_REQUIRES(acquire->client->mutex);

/* The call has slept. */
void relock_waiter_woken(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* The call has asked Redis, with that result. Returns what the result means for the wait. */
int relock_waiter_asked(struct relock_acquire *acquire, int result)
    RELOCK_REQUIRES(acquire->client->mutex);

#endif
