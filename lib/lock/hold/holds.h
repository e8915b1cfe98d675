/*
 * Holds - how a hold begins, lives and ends
 *
 * What lib/lock/hold offers to the calls, to the I/O thread and to the layers above. acquire.h has
 * the state of a call that acquires. The struct of a hold and its states are in lock/state/hold.h.
 *
 * Threads: with the mutex of the client held, unless a part says otherwise.
 */
#ifndef RELOCK_HOLDS_H
#define RELOCK_HOLDS_H

#include "lock/hold/acquire.h"
#include "lock/state/client.h"
#include "lock/state/hold.h"
#include "lock/state/lock.h"
#include "lock/state/resource.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_call;
struct relock_conn_id;
struct relock_node;
struct relock_options;

/* ---- holds ----------------------------------------------------------------------------------- */

/*
 * Holds - how a hold begins, lives and ends
 *
 * Each function takes a hold from one state to the next and updates all that depends on it: its
 * resource, its timer, the list of losses. Only cache.c changes the state of a hold, too. Each
 * function also arms the timer of the hold, unless it says that the caller does.
 *
 * Threads: with the mutex of the client locked.
 */

/*
 * A hold about to be acquired, with a number of its own. NULL when out of memory.
 *
 * A `detached` hold belongs to an observer, not to an owner of this process. It has no levels, is
 * not the holder of its resource and does not count in the statistics. Only its observers learn of
 * its loss, which ends it.
 */
struct relock_hold *relock_holds_new(struct relock_client *client, struct relock_resource *resource,
                                     uint64_t owner, bool detached) RELOCK_REQUIRES(client->mutex);

static inline struct relock_hold *relock_holds_ref(struct relock_hold *hold)
{
    hold->refs++;
    return hold;
}
void relock_holds_unref(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Some hold with levels of this owner, or of any owner if that is 0. NULL if there is none. */
struct relock_hold *relock_holds_find(struct relock_client *client, uint64_t owner)
    RELOCK_REQUIRES(client->mutex);

/* Redis granted it to the waiter, whose acquire was sent at `sent_ms`; `now_us`: the answer has
 * come. */
void relock_holds_begin(struct relock_client *client, struct relock_hold *hold,
                        struct relock_waiter *waiter, uint64_t sent_ms, uint64_t now_us)
    RELOCK_REQUIRES(client->mutex);

/* Redis granted a detached hold. */
void relock_holds_begin_detached(struct relock_client *client, struct relock_hold *hold,
                                 uint64_t sent_ms, uint64_t lease_ms)
    RELOCK_REQUIRES(client->mutex);

/* The hold is certain at least until then. */
void relock_holds_prolong(struct relock_client *client, struct relock_hold *hold,
                          uint64_t valid_until_ms) RELOCK_REQUIRES(client->mutex);

/* Changes how its lease is kept. If that concerns other servers, relock_owner_command_end()
 * tells them. */
void relock_holds_keep(struct relock_client *client, struct relock_hold *hold,
                       enum relock_hold_keeping keeping) RELOCK_REQUIRES(client->mutex);

/* Arms its timer: sets it to when the I/O thread has to act on it, see relock_hold_due_ms(). */
void relock_holds_arm(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* It ended without a release: `reason` is RELOCK_LOST_*. The I/O thread reports it. */
void relock_holds_lose(struct relock_client *client, struct relock_hold *hold, int reason,
                       uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* Its loss need not be reported any more: takes it out of its list, and drops the list's reference.
 */
void relock_holds_forget_loss(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Loses it if its time has run out. */
void relock_holds_check_time(struct relock_client *client, struct relock_hold *hold,
                             uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* Its last level is released: it is not renewed, and its owner no longer has it. */
void relock_holds_release(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Redis does not have it, or never had it. */
void relock_holds_end(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Redis may still have it: the I/O thread releases it there. */
void relock_holds_settle(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* The last level of a lost hold is released: its owner no longer has it. */
void relock_holds_release_lost(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* ---- levels ---------------------------------------------------------------------------------- */

/*
 * Levels - the commands of a hold that goes on: a level more, a level less, another lease
 *
 * While such a command runs the hold is busy, and other commands of the same owner wait. Other
 * threads do not wait: they may lose the hold, release it, or change how its lease is kept. If the
 * servers have to learn this, the end of the command tells them.
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */

/*
 * Makes the hold busy. The command gets a reference of its own, and requests a lease of `lease_ms`,
 * granted or not.
 */
void relock_owner_command_begin(struct relock_hold *hold, uint64_t lease_ms);

/* The hold is not busy any more. The command's reference stays. Calls the operation `keep` if
 * `keeping` has changed. May unlock the mutex meanwhile. */
void relock_owner_command_end(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/*
 * Adds one level for the owner of this hold.
 *
 * Returns RELOCK_OK with `acquire->hold`, or the result of the call.
 */
int relock_levels_add(struct relock_acquire *acquire, struct relock_hold *hold)
    RELOCK_REQUIRES(acquire->client->mutex);

/* The two steps of relock_levels_add, before and after the operation `nest`. A failure of the first
 * is the result of the call; it sets what the core puts into the answer. */
int relock_levels_add_begin(struct relock_acquire *acquire, struct relock_hold *hold,
                            struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex);
int relock_levels_add_end(struct relock_acquire *acquire, struct relock_hold *hold,
                          const struct relock_answer *answer)
    RELOCK_REQUIRES(acquire->client->mutex);

/* Sends Redis the new count after a release that leaves levels. Returns as relock_release. */
int relock_levels_remove(struct relock_lock *lock, struct relock_hold *hold, uint64_t deadline_ms)
    RELOCK_REQUIRES(lock->client->mutex);

/* The two steps of relock_levels_remove, before and after the operation `release`. */
void relock_levels_begin(struct relock_hold *hold, uint64_t lease_ms);
int relock_levels_remove_end(struct relock_lock *lock, struct relock_hold *hold,
                             const struct relock_answer *answer)
    RELOCK_REQUIRES(lock->client->mutex);

/* Returns as relock_extend. */
int relock_levels_extend(struct relock_lock *lock, struct relock_hold *hold, uint64_t lease_ms,
                         uint64_t deadline_ms) RELOCK_REQUIRES(lock->client->mutex);

/* From now on the watchdog renews the hold, or, if a call that collects several locks has kept a
 * fixed lease of it, it no longer does. */
void relock_levels_keep(struct relock_client *client, struct relock_hold *hold, bool renewed)
    RELOCK_REQUIRES(client->mutex);

/* ---- cache ----------------------------------------------------------------------------------- */

/*
 * Cache - holds that go from owner to owner of this process, and Redis is not asked
 *
 * A hold is handed off to a thread that waits, or it is cached until some owner asks for it. It
 * keeps its number and its lease.
 *
 * With `keep_ms`, the last release leaves the hold as it is in Redis: it is cached until `keep_ms`
 * after Redis granted it. The next owner of this process gets it from memory, as in a hand-off.
 * A cached hold belongs to no owner: queries from memory report the lock as free.
 *
 * Another client that is refused recalls the hold: its script publishes a message to the inbox of
 * this client (inbox.c). A cached hold is then released at once, and a held one at its last
 * release. So a hold is cached only if the inbox was open since before the hold was asked for.
 *
 * No call waits here for a lock that is cached: it gets the hold, or has it released first.
 *
 * Threads: any, with the mutex of the client held.
 */

/* Hands it off with its number to the head of the queue, if possible. Returns whether it did. */
bool relock_cache_hand_off(struct relock_client *client, struct relock_hold *hold, uint64_t now_us)
    RELOCK_REQUIRES(client->mutex);

/* The last level of the hold is released. Returns whether it stays in the cache. */
bool relock_cache_keep(struct relock_client *client, struct relock_hold *hold, uint64_t now_us)
    RELOCK_REQUIRES(client->mutex);

/*
 * The lock that this call wants is cached. Returns RELOCK_OK if the call has it now, with
 * `acquire->hold`. If the cached hold is of no use to the call, it is released. A blocking call
 * waits for that, with the mutex unlocked: RELOCK_AGAIN. For an asynchronous call, the release goes
 * out before the call's next command: RELOCK_BUSY; but while a command about the cached hold runs,
 * nothing is done, and the call follows the hold: RELOCK_AGAIN.
 */
int relock_cache_take(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex);

/* Releases a cached hold, and unlocks the mutex meanwhile. The calling thread. */
void relock_cache_release(struct relock_client *client, struct relock_hold *hold,
                          uint64_t deadline_ms) RELOCK_REQUIRES(client->mutex);

/* `take_kept` of the client: the owner gets the cached hold. */
void relock_cache_take_kept(struct relock_resource *resource, uint64_t owner, uint64_t since_us);

/* Recalls may be missed, or no new owner may come: releases all cached holds. No hold that an owner
 * has now is cached later. */
void relock_cache_clear(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* ---- settle ---------------------------------------------------------------------------------- */

/*
 * Settle - releases in Redis the holds that no owner of this process has
 *
 * A command that was not answered may have acquired a lock, or failed to release it. The I/O thread
 * kills the connection on which it was sent, then releases the number of the hold, and repeats both
 * until Redis answers. It stops without an answer only if the server refuses for a whole lease,
 * since the hold has expired there by then.
 *
 * A command may still be in flight when its caller returns. Settling waits for it, so that the
 * connection is not killed under other commands.
 *
 * Threads: as each function says, with the mutex of the client locked.
 */

/*
 * A command under the number of the hold has left an orphan. The hold is not settled before the
 * orphan has ended. If the orphan was answered, its connection need not be killed. Threads: the one
 * that made the call.
 */
void relock_settle_await(struct relock_client *client, struct relock_hold *hold,
                         struct relock_call *call) RELOCK_REQUIRES(client->mutex);

/* A command of the I/O thread under the number of the hold is in flight over the connection with
 * this id; NULL: it has no id. */
void relock_settle_sent(struct relock_hold *hold, struct relock_conn_id *conn_id);

/* Such a command has ended, with or without an answer. */
void relock_settle_ended(struct relock_client *client, struct relock_hold *hold,
                         const struct relock_conn_id *conn_id, bool answered)
    RELOCK_REQUIRES(client->mutex);

/* The hold is no longer needed, whatever its state, and no caller waits for its release: if Redis
 * may still have it, the I/O thread releases it there. May unlock the mutex meanwhile, and drops
 * the reference of the owner. */
void relock_let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* ---- losses ---------------------------------------------------------------------------------- */

/*
 * Losses - reports lost holds: to the log, to observers, and to the program by on_lost
 *
 * The I/O thread logs each loss and tells the observers of the hold. It never calls the program: a
 * second thread calls on_lost, once for each hold, with no mutex locked. A release of the last
 * level of such a hold waits for a running callback, and cancels one that has not begun.
 */

/* Starts the thread that calls on_lost. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_losses_start(struct relock_client *client);

/* Ends it after the running callback. Does nothing if it was not started. */
void relock_losses_stop(struct relock_client *client);

/* Calls on_lost on this thread, and drops the reference. The hold was TO_TELL, and the caller has
 * taken it out of its list. Unlocks the mutex meanwhile. */
void relock_losses_tell(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Whether this thread runs another callback, so that it may not wait for that of this hold. */
bool relock_losses_block(const struct relock_hold *hold);

/* Waits for the running callback of this hold, unless the caller is that callback. Any thread. */
void relock_losses_wait(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* ---- batch ---------------------------------------------------------------------------------- */

/* Renewals and checks of many holds by one script: see private.h. */

/* Sends the batches to which holds were added. */
void relock_batch_send_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Sends a turn of renewals that are due soon, unless the last turn is not answered yet. Called when
 * all that is due was sent. */
void relock_batch_take_turn(struct relock_client *client, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* When the next turn may begin, or a renewal is due that turns have not sent. RELOCK_NEVER: there
 * is none. */
uint64_t relock_batch_next_ms(const struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* The I/O thread has ended: drops all batches, without their references to holds. */
void relock_batch_drop_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* ---- watchdog -------------------------------------------------------------------------------- */

/*
 * Watchdog - renews and checks holds, and notices when one is lost
 *
 * A hold is renewed three tenths of its lease after its last renewal was sent, or a little sooner
 * together with others. If a renewal fails, its hold is suspect and the renewal is repeated, until
 * the hold is no longer certain and so lost. The same timer drives holds that settle.
 *
 * If the client has `min_replicas`, a renewal makes a hold certain for longer only after replicas
 * have acknowledged it. watchdog.c has the states of that.
 *
 * A check only asks Redis whether the hold is there, and has it report the next change of the lock
 * (tracked.c). It finds a hold that is gone exactly as a renewal does. But it makes no hold certain
 * for longer, so it can be sent for a fixed lease, too. A failure says nothing about the hold: the
 * next renewal tells.
 *
 * A report of Redis about a lock that is held here is a hint, and never the truth: it brings a
 * check forward, and that finds out what has happened. So a false report costs one command, and a
 * lost one is made up for by the next renewal. Nothing but a check, a renewal or a command of the
 * owner loses a hold.
 *
 * Only a hold has this timer, so a lock that is not held cannot be renewed.
 *
 * Threads: the I/O thread; relock_reports_*: with the mutex of the client held, unless a function
 * says otherwise.
 */

/* The timer of a hold has run out: renews, checks, loses or settles it. Mutex locked. */
void relock_watchdog_fire(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* Renews a lock that is one key. */
void relock_watchdog_renew(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* The connection is up: everything that waited for it is due now. */
void relock_watchdog_up(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* How long a reply may take before the connection is replaced, so that a renewal can be repeated in
 * time. */
uint64_t relock_watchdog_answer_ms(const struct relock_options *options);

/* This key has changed, `len` bytes; NULL: perhaps all have. */
void relock_watchdog_hear(struct relock_client *client, const char *key, size_t len)
    RELOCK_REQUIRES(client->mutex);

/*
 * An untracked command of this client has changed the lock, over the tracked connection. Redis does
 * not report that change there (NOLOOP), yet no longer tracks the key. So it counts as a report,
 * also for waiters (vigil.c). The I/O thread.
 */
void relock_watchdog_own_change(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* The node reports from now on, or no longer does. In both cases it has forgotten all keys that it
 * was to report. The I/O thread. */
void relock_watchdog_tracking(struct relock_client *client, const struct relock_node *node,
                              bool is_on) RELOCK_REQUIRES(client->mutex);

/* Locks may have other nodes now. The I/O thread. */
void relock_watchdog_follow(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* ---- inbox ----------------------------------------------------------------------------------- */

/*
 * Inbox - the channel whose messages tell a client that it is its turn, or recall its kept locks
 *
 * A client has one inbox for all its locks, and subscribes to it when a waiter is refused for the
 * first time, or at its start if it keeps locks. While the inbox is open, the client can keep locks
 * (cache.c) and stand in the lines of locks (line.c).
 *
 * In a cluster, it is for recalls alone: PUBLISH reaches it from all nodes. A line needs more: the
 * script that publishes has to learn whether the client still lives, but a node counts only its own
 * subscribers. So there a client has further inboxes, one for each lock that it waits for.
 *
 * Threads: any, with the mutex of the client held, unless a function says otherwise.
 */

/* Whether Redis has acknowledged the subscription: no recall is missed. */
static inline bool relock_inbox_hears_recalls(const struct relock_client *client)
    RELOCK_REQUIRES(client->mutex)
{
    return client->guarded.inbox == RELOCK_INBOX_OPEN;
}

/* Whether the client can stand in a line: it misses no message about that. Not in a cluster, like
 * the next two. */
static inline bool relock_inbox_is_open(const struct relock_client *client)
    RELOCK_REQUIRES(client->mutex)
{
    return client->guarded.inbox == RELOCK_INBOX_OPEN;
}

/* Whether the client waits outside of all lines: the user may not subscribe to the inbox. */
static inline bool relock_inbox_is_refused(const struct relock_client *client)
    RELOCK_REQUIRES(client->mutex)
{
    return client->guarded.inbox == RELOCK_INBOX_REFUSED;
}

/* For a waiter that was refused: subscribes. Returns false if the client waits outside of all
 * lines.
 */
bool relock_inbox_want(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* The three above for waiters for one lock. In a cluster, the client has an inbox for each lock:
 * see lock/wake/wake.h. */
bool relock_inbox_is_open_for(const struct relock_client *client,
                              const struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);
bool relock_inbox_is_refused_for(const struct relock_client *client,
                                 const struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);
bool relock_inbox_want_for(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* For a client that keeps locks: subscribes. */
void relock_inbox_want_recalls(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
