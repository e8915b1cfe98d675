/*
 * Reports - what Redis reports about locks that are held here
 *
 * A report is a hint, and never the truth: it brings a check forward, and that finds out what has
 * happened. So a false report costs one command, and a lost one is made up for by the next renewal.
 * Nothing but a check, a renewal or a command of the owner loses a hold.
 *
 * Threads: with the mutex of the client held, unless a function says otherwise.
 */
#ifndef RELOCK_REPORTS_H
#define RELOCK_REPORTS_H

#include "lock/state/client.h"

struct relock_resource;

/* This key has changed, `len` bytes; NULL: perhaps all have. */
void relock_reports_hear(struct relock_client *client, const char *key, size_t len)
    RELOCK_REQUIRES(client->mutex);

/*
 * An untracked command of this client has changed the lock, over the tracked connection. Redis does
 * not report that change there (NOLOOP), yet no longer tracks the key. So it counts as a report,
 * also for waiters (vigil.h). The I/O thread.
 */
void relock_reports_own_change(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

/* The node reports from now on, or no longer does. In both cases it has forgotten all keys that it
 * was to report. The I/O thread. */
void relock_reports_turn(struct relock_client *client, const struct relock_node *node, bool is_on)
    RELOCK_REQUIRES(client->mutex);

/* Locks may have other nodes now. The I/O thread. */
void relock_reports_follow(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
