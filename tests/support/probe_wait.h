/*
 * Probe wait - waits for what other connections change in a server
 *
 * Each function asks the server until it has the expected state. It returns false after
 * `within_ms`, or after SOON_MS if it has no such argument.
 *
 * Threads: that of the probe.
 */
#ifndef RELOCK_TEST_PROBE_WAIT_H
#define RELOCK_TEST_PROBE_WAIT_H

#include "support/probe.h"

bool probe_wait_subscribers(struct probe *probe, const char *channel, long long n);
bool probe_wait_key(struct probe *probe, const char *key);
bool probe_wait_no_key(struct probe *probe, const char *key, uint64_t within_ms);

/* Waits until a replica is in sync. */
bool probe_wait_replica(struct probe *probe);

/* Waits until channels of `n` locks have subscribers. */
bool probe_wait_lock_channels(struct probe *probe, long long n);

/* Waits until `n` clients stand in the line of a lock whose name has no brace. */
bool probe_wait_in_line(struct probe *probe, const char *name, long long n);

/* Waits until so many scripts have run. */
bool probe_wait_script_calls(struct probe *probe, long long n, uint64_t within_ms);

#endif
