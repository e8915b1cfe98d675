/*
 * Tracked - holds whose next change Redis reports: client tracking
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_TRACKED_H
#define RELOCK_TEST_TRACKED_H

#include "support/fixture.h"

/* A client whose renewals come after an hour. */
struct relock_client *tracked_client(struct fixture *f, unsigned flags);

/* How many checks Redis has tracked; waits until there are so many. */
long long tracked_count(struct probe *probe);
bool tracked_wait(struct probe *probe, long long n);

/* Acquires the lock, and waits until it is tracked. */
void tracked_hold(struct fixture *f, struct relock_lock *lock, const struct relock_how *how);

/* Whether the server counts CLIENT CACHING, as Redis 7 does. */
bool tracked_is_counted(struct probe *probe);

/* For the group setup, as fixture_start: skips the program if the server cannot count checks, as
 * before Redis 7. */
int tracked_start(void **state);

#endif
