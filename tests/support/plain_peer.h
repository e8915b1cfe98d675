/*
 * Plain peer - the plain lock "orders", and a client of another library on the same plain locks
 *
 * Takes and releases as redis-py, redsync and node-redlock do: SET NX PX, and a script that
 * compares before it deletes, sent by EVAL over a plain connection.
 *
 * Threads: as the probe.
 */
#ifndef RELOCK_TEST_PLAIN_PEER_H
#define RELOCK_TEST_PLAIN_PEER_H

#include "support/fixture.h"

#define PLAIN_PEER "8e3e6f0ac9d111efa3b50242ac120002" /* as of redis-py */

/* A plain lock "orders" of ours, freed at the end of the test. */
struct relock_lock *plain_handle(struct fixture *f, struct relock_client *client);

/* One try. False if it is held, by itself too: there are no levels. */
bool plain_peer_lock(struct probe *probe, const char *name, const char *token, uint64_t lease_ms);

/* False if it was not the token's. */
bool plain_peer_unlock(struct probe *probe, const char *name, const char *token);

/* Replaces the holder of the lock. */
bool plain_peer_usurp(struct probe *probe, const char *name, const char *token, uint64_t lease_ms);

#endif
