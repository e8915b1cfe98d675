/*
 * Call - the calls that acquire and release, and their steps
 *
 * What lib/lock/call offers to asynchronous calls, to the kinds and to the layers above. A blocking
 * call is a loop over steps; an asynchronous call takes the same steps one by one.
 */
#ifndef RELOCK_LOCK_CALL_H
#define RELOCK_LOCK_CALL_H

#include "lock/hold/acquire.h"
#include "lock/state/client.h"
#include "lock/state/kind.h"
#include "lock/state/lock.h"
#include "lock/state/resource.h"
#include "lock/wake/outbox.h"

#include <stdbool.h>
#include <stdint.h>

struct redisReply;
struct relock_grant;
struct relock_how;

/* ---- take ------------------------------------------------------------------------------------ */

/*
 * Take - the calls that take a lock: relock_acquire and its short forms
 *
 * Threads: the calling thread; under no mutex, unless a function requires that of the client.
 */

/*
 * A call that collects several locks, for the acquire of one of them. A loss of that is reported
 * only to the observers of the hold, and a fixed lease is renewed until relock_levels_keep(), for
 * the other locks may take longer.
 */
struct relock_collector {
    struct relock_cancel *stop; /* of the call: ends the wait */
    bool is_vouched;            /* the owner had a hold on the client of the call */
    uint64_t give_up_ms;        /* of a try: when commands are given up; else RELOCK_NEVER */
    uint64_t number;            /* set with RELOCK_OK: of the hold */
};

/* As relock_acquire, with checked arguments. `collector` may be NULL. */
int relock_take(struct relock_lock *lock, const struct relock_how *how,
                struct relock_collector *collector, struct relock_grant *grant);

/*
 * The steps of relock_take for an asynchronous call (async_acquire.c), in this order:
 *
 *   check    returns a failure if the call must be refused. `how` may be NULL
 *   init     fills the state of the call
 *   join     begins the wait for a first level. Returns RELOCK_JOINED, the result of the call, or
 *            RELOCK_AGAIN as relock_waiter_ended(). After RELOCK_JOINED, the steps of the wait come
 *            next, up to relock_waiter_leave()
 *   count    counts the call
 *   report   returns the hold to the caller; or names the lock that was not acquired, and logs why
 */
#define RELOCK_JOINED 2

int relock_take_check(const struct relock_lock *lock, const struct relock_how *how);
void relock_take_init(struct relock_acquire *acquire, struct relock_lock *lock,
                      const struct relock_how *how, struct relock_cancel *stop,
                      uint64_t give_up_ms);
int relock_take_join(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);
void relock_take_count(struct relock_acquire *acquire, int result)
    RELOCK_REQUIRES(acquire->client->mutex);
void relock_take_report(struct relock_acquire *acquire, int result, struct relock_grant *grant)
    RELOCK_REQUIRES(acquire->client->mutex);

/* Whether the result is an answer to the program, and not a failure for the log. */
bool relock_take_is_answer(int result);

/* Whether a call that waits for deferred releases is to go on at once, and so to end: it was
 * cancelled, or the client was shut down. */
bool relock_take_is_stopped(const struct relock_acquire *acquire)
    RELOCK_REQUIRES(acquire->client->mutex);

#define RELOCK_WHY_DEFERRED "a deferred release of this lock got no answer in time"

/* ---- wait ------------------------------------------------------------------------------------ */

/*
 * Wait - the wait of a call in the queue of a resource
 *
 * A blocking call takes all steps in relock_waiter_wait(), an asynchronous call one by one
 * (async_acquire.c). Calls that ask for no hold (lib/count) wait in the same way.
 *
 * Threads: the calling thread, with the mutex of the client held; the steps may unlock it
 * meanwhile.
 */

/* In between, `how->cancel` opens the gate of the waiter. Under no mutex. */
void relock_waiter_watch_cancels(struct relock_acquire *acquire);
void relock_waiter_unwatch_cancels(struct relock_acquire *acquire);

/* Joins the queue; and ends the wait, with its result. */
void relock_waiter_begin(struct relock_acquire *acquire, struct relock_resource *queue)
    RELOCK_REQUIRES(acquire->client->mutex);
void relock_waiter_leave(struct relock_acquire *acquire, int result)
    RELOCK_REQUIRES(acquire->client->mutex);

/*
 * Whether something other than a grant by Redis has ended the wait.
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

typedef int relock_waiter_ask_fn(struct relock_acquire *acquire);

/* After relock_waiter_ended said RELOCK_BUSY: waits in the queue and asks Redis by `ask` when it is
 * this waiter's turn. Returns as `ask`, which returns RELOCK_BUSY to go on; and RELOCK_TIMEOUT. */
int relock_waiter_wait(struct relock_acquire *acquire, relock_waiter_ask_fn *ask)
    RELOCK_REQUIRES(acquire->client->mutex);

/* An attempt begins; `is_asking` until `ask` ends. */
void relock_waiter_asks(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* It has the answer, of which the verdict and the result count. A wait goes on that silence had
 * ended before Redis answered after all. */
void relock_waiter_answered(struct relock_acquire *acquire, const struct relock_answer *answer)
    RELOCK_REQUIRES(acquire->client->mutex);

/* It used up the signal and learned nothing: the next head needs it, too. */
void relock_waiter_failed(struct relock_acquire *acquire, int result)
    RELOCK_REQUIRES(acquire->client->mutex);

/* ---- ask ------------------------------------------------------------------------------------- */

/*
 * Ask - one attempt of a waiter at the first level
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */

/*
 * The head of the queue asks, or a reader for the first time.
 *
 * Returns RELOCK_OK with `acquire->hold`; RELOCK_BUSY if another owner has the lock; RELOCK_AGAIN
 * if this owner has got it meanwhile, by another thread; or the failure of asking: then nothing is
 * held, and a grant that Redis may have made is settled.
 */
int relock_ask(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/*
 * The two steps of relock_ask(), before and after the operation `ask`. The first step returns the
 * hold to ask for, or NULL when out of memory, and sets the core's fields of the answer.
 */
struct relock_hold *relock_ask_begin(struct relock_acquire *acquire, struct relock_answer *answer)
    RELOCK_REQUIRES(acquire->client->mutex);
int relock_ask_end(struct relock_acquire *acquire, struct relock_hold *hold,
                   const struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex);

/* ---- release --------------------------------------------------------------------------------- */

/*
 * Release - the calls that release a level of a lock or change its lease
 *
 * Threads: any, under no mutex.
 */

/*
 * Releases one level without asking Redis; after the last one the I/O thread releases the lock
 * there. For callbacks and the end of a client. Returns RELOCK_OK, RELOCK_NOT_OWNER,
 * RELOCK_E_CLOSED.
 */
int relock_release_unasked(struct relock_lock *lock, uint64_t owner, uint64_t number);

/*
 * As relock_release, relock_extend and relock_check, with checked arguments and a deadline for the
 * answer; 0, of a release: as the options say. `number`: see relock_resource_find_number().
 * `counts`: the program has made the call. `may_defer`: it need not wait for the answer.
 */
int relock_release_by(struct relock_lock *lock, uint64_t owner, uint64_t number,
                      uint64_t deadline_ms, bool counts, bool may_defer);
int relock_extend_by(struct relock_lock *lock, uint64_t owner, uint64_t number, uint64_t lease_ms,
                     uint64_t deadline_ms);
int relock_check_by(struct relock_lock *lock, uint64_t owner, uint64_t number,
                    struct relock_grant *grant);

/* As relock_release_unasked, for a level of this hold of the lock. Waits for a callback only if
 * `may_wait`. Returns RELOCK_OK. */
int relock_release_level_of(struct relock_lock *lock, struct relock_hold *hold, bool may_wait)
    RELOCK_REQUIRES(lock->client->mutex);

/* Another command of this owner is unanswered at the deadline: Redis learns of the release after
 * that command. Waits for a callback only if `may_wait`. Returns as relock_release. */
int relock_release_late(struct relock_lock *lock, uint64_t owner, uint64_t number, bool may_wait)
    RELOCK_REQUIRES(lock->client->mutex);

/* A level of a lost hold is released: its count is already less. Waits for a callback after the
 * last one. Returns RELOCK_LOST. */
int relock_release_lost(struct relock_client *client, struct relock_hold *hold,
                        uint64_t deadline_ms) RELOCK_REQUIRES(client->mutex);

/* The facts that were known when a last release was sent. */
struct relock_release_view {
    uint64_t owner;
    bool is_subscribed;
    struct relock_line_view line;
    uint64_t began_us; /* when it was sent */
    uint64_t held_us;  /* how long the hold had lasted */
    bool counts;       /* whether `held_us` goes into the histogram of holds */
    bool is_deferred;  /* the call has returned RELOCK_OK without the answer */
};

/* The last release, before and after the operation `release`; the count is already 0. It begins at
 * `now_us`. The first step returns false if the hold was handed off, so that Redis is not asked.
 * The second returns as relock_release. */
bool relock_release_begin_last(struct relock_lock *lock, struct relock_hold *hold, uint64_t now_us,
                               struct relock_release_view *view)
    RELOCK_REQUIRES(lock->client->mutex);
int relock_release_end_last(struct relock_lock *lock, struct relock_hold *hold,
                            const struct relock_release_view *view,
                            const struct relock_answer *answer)
    RELOCK_REQUIRES(lock->client->mutex);

/* ---- defer ----------------------------------------------------------------------------------- */

/*
 * Defer - last releases whose callers do not wait for the answer (RELOCK_DEFER_RELEASES)
 *
 * The command goes out over a lane, and whichever thread next drives that lane reads the answer; if
 * no call uses the lane, the I/O thread does, a few milliseconds later. A release whose answer is
 * lost, or is no answer to a release, is settled. So it ends as any other, only later.
 *
 * Later calls of this client for the lock wait until the release has ended: otherwise they could
 * overtake it, and find the lock held.
 *
 * Threads: any, with the mutex of the client held.
 */

/*
 * After relock_release_begin_last(): sends the release, and unlocks the mutex meanwhile. Returns
 * false if it was not sent: the caller sends it, and waits. That is so if threads of this process
 * wait for the lock, and if a connection would have to be made or killed first.
 */
bool relock_defer(struct relock_lock *lock, struct relock_hold *hold,
                  const struct relock_release_view *view, uint64_t deadline_ms)
    RELOCK_REQUIRES(lock->client->mutex);

/* Waits for the deferred releases of all holds that are older than this call, and unlocks the mutex
 * meanwhile. `acquire`: the call; NULL: nothing stops it. Returns false if one has not ended at
 * `until_ms`, or when the call was stopped. */
bool relock_defer_await(struct relock_client *client, struct relock_resource *resource,
                        const struct relock_acquire *acquire, uint64_t until_ms)
    RELOCK_REQUIRES(client->mutex);

/* The hold of the oldest release that has not ended, of those made before hold number `serial`;
 * NULL: there is none. For an asynchronous call, which follows the hold, and hurries. */
struct relock_hold *relock_defer_first(const struct relock_resource *resource, uint64_t serial);
void relock_defer_hurry(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* ---- commands -------------------------------------------------------------------------------- */

/*
 * Commands - the operations of a lock that is one key on one server
 *
 * Each is a script of the kind, run over the lanes; only renewals go through the I/O thread.
 *
 * Threads: as kind.h says of operations.
 */

extern const struct relock_operations relock_command_operations;

/*
 * Asks for the holder of the lock; `number` is that of the caller's hold, 0 for none. Under no
 * mutex, within a call. The caller ends the request, also after a failure. Returns RELOCK_OK or the
 * failure of asking, and why in the request.
 */
int relock_commands_inspect(struct relock_lock *lock, uint64_t number, uint64_t deadline_ms,
                            struct relock_request *request, struct relock_inspection *inspection);

/*
 * The parts of these operations for an asynchronous call: they write its script, which is to give
 * the hold one level more than it has, and read the reply. After a failure without a reply,
 * relock_async_fill_answer() fills the answer.
 */
void relock_commands_write_lock(const struct relock_acquire *acquire,
                                const struct relock_hold *hold, struct relock_request *request)
    RELOCK_REQUIRES(acquire->client->mutex);
void relock_commands_read_ask(const struct relock_acquire *acquire, struct relock_hold *hold,
                              const struct redisReply *reply, struct relock_answer *answer);
void relock_commands_read_nest(const struct relock_acquire *acquire, const struct redisReply *reply,
                               struct relock_answer *answer);

/* Whether the release puts the client into the line of the lock again. */
bool relock_commands_waits_again(const struct relock_client *client, const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* `joins`: what relock_commands_waits_again() returned before the command was sent. After a
 * failure, `reply` is NULL. */
void relock_commands_read_release(struct relock_client *client, struct relock_hold *hold,
                                  bool joins, const struct redisReply *reply,
                                  struct relock_answer *answer) RELOCK_REQUIRES(client->mutex);

#endif
