/*
 * Wake - who is woken when
 *
 * What lib/lock/wake offers to the calls, to the holds and to the I/O thread: each tells it what
 * has happened, and it wakes those for whom a retry is worthwhile. listener.h is for layers above,
 * which wait for several locks at once. outbox.h has the commands.
 *
 * Threads: any, with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_WAKE_H
#define RELOCK_WAKE_H

#include "lock/state/client.h"
#include "lock/state/kind.h"
#include "lock/state/lock.h"
#include "lock/state/resource.h"
#include "redis/server/command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_listener;
struct relock_node;

/* ---- subscription ---------------------------------------------------------------------------- */

/*
 * Subscription - to the channel of a lock, while a waiter of this process needs it; in a cluster,
 * also to the inbox of the client for this lock
 *
 * A waiter that is refused wants the channel, and the I/O thread subscribes to it. The subscription
 * ends a little later than its last use, so that contention does not churn SUBSCRIBE and
 * UNSUBSCRIBE. The state is in the resource, and changed here alone.
 *
 * Threads: any, with the mutex of the client held, unless a function says otherwise.
 */

/* Whether Redis has acknowledged the subscription: no message is missed. */
bool relock_subscription_is_active(struct relock_resource *resource);

/* For a waiter that was refused: the lock has contention. Does nothing if releases are not
 * published. */
void relock_subscription_want(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* In a cluster: for a waiter for a lock with contention that has a line. The inbox has the slot of
 * the lock, and stays subscribed for a while after the last wait. */
void relock_subscription_want_inbox(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* To be called when a waiter or the local owner is gone: the subscription ends a little later if
 * nothing else uses it. */
void relock_subscription_idle(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* ---- vigil ----------------------------------------------------------------------------------- */

/*
 * Vigil - waiters for a lock whose releases nobody publishes sleep until Redis reports a change
 *
 * When the head of the queue was refused, the I/O thread reads the lock over a connection that is
 * tracked (redis/io/io.h). While the vigil is on, the head sleeps like one that listens to a
 * channel: until a report, or until the lease ends or `recheck_ms` have passed. While the vigil is
 * off, the head polls.
 *
 * Threads: with the mutex of the client held, unless a function says otherwise.
 */

/* The head of this queue was refused: the lock has contention. Does nothing for other kinds. */
void relock_vigil_want(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* Whether the lock was held, and Redis reports when it is not any more. */
static inline bool relock_vigil_is_on(const struct relock_resource *resource)
{
    return relock_resource_contention(resource)->vigil.state == RELOCK_VIGIL_ON;
}

/* Redis reports that this key has changed, `len` bytes; NULL: perhaps all have. */
void relock_vigil_hear(struct relock_client *client, const char *key, size_t len)
    RELOCK_REQUIRES(client->mutex);

/* This client has changed the lock, which Redis reports to other clients only: see
 * relock_watchdog_own_change. */
void relock_vigil_spend(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* The node tracks from now on, or no longer does. In both cases it has forgotten all keys that it
 * was to report. */
void relock_vigil_tracking(struct relock_client *client, const struct relock_node *node, bool is_on)
    RELOCK_REQUIRES(client->mutex);

/* Locks may have other nodes now. The I/O thread. */
void relock_vigil_follow(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* ---- room ------------------------------------------------------------------------------------ */

/*
 * Room - now and then all waiters of this library leave a plain lock to those of another one
 *
 * Waiters of other libraries poll, every 100 ms for example. They would hardly ever find the lock
 * free, because those of this library ask within a millisecond of each release. So while tokens of
 * other libraries are read, there are windows in which no waiter asks: room.c says when. A call
 * that does not wait asks nevertheless, and any other asks when its time is over. After a hold of
 * another library, it is this library's turn, and no room begins.
 *
 * A waiter reads the token of the holder when it begins to sleep (vigil.c), and when the lock
 * changes during a room. So the rooms go on while the other library uses them.
 *
 * Threads: any, with the mutex of the client held.
 */

/* As long as the pause of most libraries that poll, and a hold. */
#define RELOCK_ROOM_MS 128

/* Whether this moment, on the clock of the server, is within a window. A pure function. */
bool relock_room_is_at(uint64_t server_ms);

/* Whether a waiter that would ask now is to begin a room. */
bool relock_room_is_due(const struct relock_resource *resource, uint64_t now_ms);

/* Whether this client leaves the lock to others. */
bool relock_room_is_on(const struct relock_resource *resource, uint64_t now_ms);

/* Another library held the lock at `server_ms`, by a reply to a command sent at `sent_ms`. */
void relock_room_see(struct relock_resource *resource, uint64_t server_ms, uint64_t sent_ms,
                     uint64_t now_ms);

/* A client of this library held it. */
void relock_room_see_ours(struct relock_resource *resource);

/* A waiter is about to ask. Returns whether it begins a room instead: then the lock has
 * contention, and the waiter asks when the room has ended. */
bool relock_room_begin(struct relock_client *client, struct relock_resource *resource,
                       uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* ---- pace ------------------------------------------------------------------------------------ */

/*
 * Pace - how soon the next command follows a report of Redis that was for nothing
 *
 * Redis may report a change each time that it is asked to: other clients share the lock, or the
 * table of tracked keys is full. Each report costs a command. The first follows at once, but when
 * reports keep coming the pause grows, until the ordinary renewals or polls are as frequent.
 *
 * Threads: any.
 */

#define RELOCK_PACE_MIN_MS 10
#define RELOCK_PACE_CALM 4 /* after so many pauses without a report, the pause starts anew */

/* A report came at `now_ms` for a command sent at `sent_ms`. Returns when the next one may be sent,
 * and updates the pause. */
static inline uint64_t relock_pace_next(uint32_t *pause_ms, uint64_t sent_ms, uint64_t now_ms,
                                        uint64_t most_ms)
{
    uint64_t next_ms, at_ms;

    if (now_ms - sent_ms >= (uint64_t)*pause_ms * RELOCK_PACE_CALM)
        *pause_ms = 0;
    at_ms = sent_ms + *pause_ms;
    next_ms = *pause_ms > 0 ? 2 * (uint64_t)*pause_ms : RELOCK_PACE_MIN_MS;
    if (next_ms > most_ms)
        next_ms = most_ms;
    *pause_ms = next_ms < UINT32_MAX ? (uint32_t)next_ms : UINT32_MAX;
    return at_ms > now_ms ? at_ms : now_ms;
}

/* ---- silence --------------------------------------------------------------------------------- */

/*
 * Silence - ends waits when Redis has not answered for `command_timeout_ms`
 *
 * Only the head of a queue asks Redis, and not while a local owner holds the lock. So the I/O
 * thread pings while calls wait, twice in that time, and ends all their waits alike. A waiter that
 * does not wait for the server of its client finds out for itself which servers are unreachable.
 *
 * Threads: any, with the mutex of the client held.
 */

/* Before the I/O thread starts; without the mutex. */
void relock_silence_init(struct relock_client *client);

/*
 * A wait begins, at its `joined_ms`. Its ping is mostly due before any renewal. So a program that
 * acquires and releases a lock all the time wakes the I/O thread for each ping, not for each lock.
 */
void relock_silence_wait_begins(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);

/* The wait is over. */
void relock_silence_wait_ends(struct relock_client *client, struct relock_waiter *waiter)
    RELOCK_REQUIRES(client->mutex);

/* ---- drain ----------------------------------------------------------------------------------- */

/*
 * Drain - which owners still acquire after relock_client_shutdown
 *
 * An owner that holds a lock of the client may need further ones to finish its work, so its calls
 * go on until it holds none. All other calls are refused, and no owner without a hold can get one.
 * So each owner comes to its end.
 *
 * Locks that a multi lock has collected so far are held by no owner yet. Each client counts its own
 * holds only.
 *
 * Threads: with the mutex of the client held.
 */

/* Whether the owner has a lock of this client that is not lost. */
bool relock_drain_has_hold(const struct relock_client *client, uint64_t owner)
    RELOCK_REQUIRES(client->mutex);

/* Whether the owner may acquire a lock, or go on waiting for one. `is_vouched`: it acquires for a
 * call on another client, where it has a hold. */
bool relock_drain_admits(const struct relock_client *client, uint64_t owner, bool is_vouched)
    RELOCK_REQUIRES(client->mutex);

/* Wakes all waits: each checks whether it is still admitted. */
void relock_drain_wake(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* A hold of the owner has ended or is lost. */
void relock_drain_left(struct relock_client *client, uint64_t owner) RELOCK_REQUIRES(client->mutex);

/* ---- echo ------------------------------------------------------------------------------------ */

/*
 * Echo - repeats the message of a release at the node that has the slot, while it is half moved
 *
 * While the slot of a lock moves in a cluster, a script that finds no key at the old node runs at
 * the new one (ASK), and what it publishes on a sharded channel stays there. But waiters listen at
 * the old node until the move ends, and an interrupted move never ends. So after a release the
 * client publishes the message once more at the old node. Too many messages do no harm: a waiter
 * that hears one asks once. Scripts with several keys wait until the slot has moved, so they need
 * no echo.
 *
 * Threads: any, with the mutex of the client held.
 */

/* This client has freed the lock. Does nothing unless a slot of the cluster is half moved. */
void relock_echo_release(struct relock_client *client, const struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* ---- alarm ----------------------------------------------------------------------------------- */

/*
 * Alarm - tells the waiters of a cluster that a lock was released while its slot is half moved
 *
 * A message to an inbox, or on the channel of a lock, may then not reach a client, because that is
 * subscribed at the other node. So the script that releases such a lock also publishes the name on
 * one channel for the whole cluster, with PUBLISH, which reaches the subscribers of all nodes. Each
 * client that waits in a line is subscribed to it at one node, from its first wait until it is
 * freed.
 *
 * Threads: any, with the mutex of the client held.
 */

/* For a waiter of a cluster that was refused. */
void relock_alarm_want(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* ---- line ------------------------------------------------------------------------------------ */

/*
 * Line - the place of this client among the clients that wait for a lock
 *
 * For each lock, Redis keeps a line of the clients that wait for it. A release tells the first
 * client that it is its turn, and the next one that it is first now; the others sleep on. So a
 * release costs the same whether two clients wait or two hundred. docs/wire.md has the keys and
 * messages.
 *
 * A waiter that is refused puts its client in the line. Nothing wakes the first client in the line
 * if the holder does not know the line, or if the client that was told before it is silent. So
 * after 100 ms it listens to the channel of the lock and asks once more.
 *
 * A client without the right to the line or to its inbox (inbox.c) waits outside: it listens to the
 * channel of the lock from the start.
 *
 * Threads: any, with the mutex of the client held.
 */

/* A waiter of this process was refused: the lock has contention. `sent` is the view from before the
 * attempt. */
void relock_line_refused(struct relock_client *client, struct relock_resource *resource,
                         const struct relock_line_view *sent, const struct relock_busy *busy)
    RELOCK_REQUIRES(client->mutex);

/* A command of this hold that joins the line got no answer: the client may be in it. */
void relock_line_unanswered(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* A waiter of this process acquired the lock. `has_left`: its script took the client out of the
 * line. */
void relock_line_granted(struct relock_client *client, struct relock_resource *resource,
                         bool has_left) RELOCK_REQUIRES(client->mutex);

/* As relock_line_granted, for a call that stands in the line by a listener. */
void relock_line_granted_to(struct relock_client *client, struct relock_resource *resource,
                            const struct relock_listener *listener) RELOCK_REQUIRES(client->mutex);

/* The local owner released the lock, and the script put the client into the line again, at `place`:
 * 1 if the client is to ask at once; 0 if it is in no line. */
void relock_line_released(struct relock_client *client, struct relock_resource *resource,
                          const struct relock_line_view *sent, uint64_t place)
    RELOCK_REQUIRES(client->mutex);

/* The last waiter of this process may have gone without the lock. */
void relock_line_give_up(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* The place, or a message, may be lost: all waiters for the lock here ask again. */
void relock_line_ask_again(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* Messages about any of its locks may have been missed: all waiters of this client ask again. */
void relock_line_ask_all_again(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* This client got a message about a lock for which a call waits here. */
void relock_line_hear(struct relock_client *client, struct relock_resource *resource,
                      struct relock_text verb) RELOCK_REQUIRES(client->mutex);

/* Takes the client out of the line of the lock `name`, as soon as there is a connection. Returns
 * false when out of memory. */
bool relock_line_leave(struct relock_client *client, const char *name, size_t len, const char *side)
    RELOCK_REQUIRES(client->mutex);

/* The server answered without a place: this user has no right to the line. Logs it, once for each
 * client. Unlocks the mutex meanwhile. */
void relock_line_log_missing(struct relock_client *client, const struct relock_lock *lock)
    RELOCK_REQUIRES(client->mutex);

/* The I/O thread has a connection again: leaves the lines that it could not leave before. */
void relock_line_leave_again(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* The I/O thread has ended: drops what was not sent or not answered. */
void relock_line_close(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
