/*
 * Peer - a client of another library on the same locks
 *
 * Takes and releases as Redisson's RLock does, with its own scripts, sent by EVAL over a plain
 * connection. `holder` is a field like "<uuid>:<thread id>".
 *
 * Threads: as the probe.
 */
#ifndef RELOCK_TEST_PEER_H
#define RELOCK_TEST_PEER_H

#include "support/probe.h"

#define PEER "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:41"
#define PEER_LEASE_MS 30000

/* One try, one level more. False if it is somebody else's. */
bool peer_lock(struct probe *probe, const char *name, const char *holder, uint64_t lease_ms);

/* One level less; the last one deletes the key and publishes. False if it was not the holder's. */
bool peer_unlock(struct probe *probe, const char *name, const char *holder);

/* Replaces the holder of the lock, and publishes nothing. */
bool peer_usurp(struct probe *probe, const char *name, const char *holder, uint64_t lease_ms);

/* The channel on which the release of `name` is announced. */
void peer_channel(const char *name, char *channel, size_t size);

#endif
