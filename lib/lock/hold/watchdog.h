/*
 * Watchdog - renews and checks holds, and notices when one is lost
 *
 * A hold is renewed three tenths of its lease after its last renewal was sent. Renewals are
 * pipelined, one key each. If one fails, its hold is suspect and the renewal is repeated, until the
 * hold is no longer certain and so lost. The same timer drives holds that settle.
 *
 * If the client has `min_replicas`, a renewal makes a hold certain for longer only after replicas
 * have acknowledged it. watchdog.c has the states of that.
 *
 * A check only asks Redis whether the hold is there, and has it report the next change of the lock
 * (tracked.h). It finds a hold that is gone exactly as a renewal does. But it makes no hold certain
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
#ifndef RELOCK_WATCHDOG_H
#define RELOCK_WATCHDOG_H

#include "lock/state/client.h"

/* The timer of a hold has run out: renews, checks, loses or settles it. Mutex locked. */
void relock_watchdog_fire(struct relock_timer *timer, uint64_t now_ms);

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
 * also for waiters (vigil.h). The I/O thread.
 */
void relock_watchdog_own_change(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* The node reports from now on, or no longer does. In both cases it has forgotten all keys that it
 * was to report. The I/O thread. */
void relock_watchdog_tracking(struct relock_client *client, const struct relock_node *node,
                              bool is_on) RELOCK_REQUIRES(client->mutex);

/* Locks may have other nodes now. The I/O thread. */
void relock_watchdog_follow(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
