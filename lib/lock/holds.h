/*
 * Holds - how a hold begins and how it ends
 *
 * Each of these moves a hold from one state to the next and puts the rest in order: its site, its
 * timer, the list of losses. Only here does a hold change its state.
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_HOLDS_H
#define RELOCK_HOLDS_H

#include "lock/client.h"

/* A hold that Redis has yet to be asked for, under a number of its own. NULL when out of memory. */
struct relock_hold *relock_holds_new(struct relock_client *client, struct relock_site *site,
                                     uint64_t owner) RELOCK_REQUIRES(client->mutex);

struct relock_hold *relock_holds_ref(struct relock_hold *hold);
void relock_holds_unref(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Redis granted it to the waiter that asked at `sent_ms`. */
void relock_holds_begin(struct relock_client *client, struct relock_hold *hold,
                        struct relock_waiter *waiter, uint64_t sent_ms)
    RELOCK_REQUIRES(client->mutex);

/* All members of a multi lock are held for this owner: so the whole is. */
void relock_holds_begin_whole(struct relock_client *client, struct relock_hold *hold,
                              relock_lost_fn *on_lost, void *arg) RELOCK_REQUIRES(client->mutex);

/* Redis granted a lease that was asked for at `sent_ms`: the hold is certain for longer. */
void relock_holds_prolong(struct relock_client *client, struct relock_hold *hold, uint64_t sent_ms,
                          uint64_t lease_ms) RELOCK_REQUIRES(client->mutex);

/* No multi lock collects its members any more: a fixed lease runs out. NULL for none. */
void relock_holds_keep_no_more(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Gives it, number and all, to the head of the queue, if that may be. Returns whether it did. */
bool relock_holds_pass_on(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* It ended without a release: `reason` is RELOCK_LOST_*. The I/O thread tells. */
void relock_holds_lose(struct relock_client *client, struct relock_hold *hold, int reason,
                       uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* Loses it if its time has run out. */
void relock_holds_check_time(struct relock_client *client, struct relock_hold *hold,
                             uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/*
 * A command of its owner is under way, a reference with it, and others wait until it is over.
 * `lease_ms` is what it asks for, granted or not.
 */
void relock_holds_work(struct relock_hold *hold, uint64_t lease_ms);

/* It is over; the reference stays. */
void relock_holds_rest(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* The last level is given up: nothing renews it, its owner has nothing any more. */
void relock_holds_leave(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Redis knows of the end, or never knew of the hold. */
void relock_holds_end(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Redis may still have it: the I/O thread releases its number. */
void relock_holds_settle(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* All levels are given up, and nobody asks Redis and waits: the I/O thread tells it. Of a red lock:
 * gives the mutex up meanwhile. */
void relock_holds_let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* The last level of a lost hold is given up. */
void relock_holds_end_lost(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

#endif
