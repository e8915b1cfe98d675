/*
 * Stats - the counts of a client, and waits for them
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_STATS_H
#define RELOCK_TEST_STATS_H

#include <relock.h>

#include <stdbool.h>
#include <stdint.h>

struct relock_stats stats_of(struct relock_client *client);

/* Waits until that many calls of the client wait. */
bool wait_for_waiters(struct relock_client *client, uint64_t n);

/* Waits until at least `n` renewals were granted after the first `since`, until `n` connections
 * were made again, until waiters have asked `n` times without being told to, until `n` holds were
 * lost, or until a lock was recalled `n` times. */
bool wait_for_renewals(struct relock_client *client, uint64_t since, uint64_t n);
bool wait_for_reconnects(struct relock_client *client, uint64_t n);
bool wait_for_rechecks(struct relock_client *client, uint64_t n);
bool wait_for_lost(struct relock_client *client, uint64_t n);
bool wait_for_recalls(struct relock_client *client, uint64_t n);

#endif
