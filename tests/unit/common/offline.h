/*
 * Offline - a client without connections and I/O thread, and its lock `orders`
 *
 * Nothing that a test does with it asks Redis or wakes a thread.
 *
 * Threads: the main one; for others the mutex of the client counts.
 */
#ifndef RELOCK_TEST_OFFLINE_H
#define RELOCK_TEST_OFFLINE_H

#include "lock/hold/holds.h"
#include "lock/state/client.h"
#include "lock/state/resource.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wthread-safety" /* no other thread runs: no mutex is needed */
#endif

#define LEASE_MS 30000  /* lease of every renewed hold */
#define RENEWAL_MS 9000 /* when the watchdog renews it */

extern struct relock_client client;
extern struct relock_resource *resource;

void offline_begin(void);

/* Returns 0 if the client has no resource and no hold left, else -1. */
int offline_end(void);

/* The waiter joins the queue and acquires the lock. The test has a reference to the hold. */
struct relock_hold *offline_acquire(struct relock_waiter *waiter, uint64_t sent_ms);

/* The hold ends as after a last release that Redis has confirmed. */
void offline_release(struct relock_hold *hold, uint64_t now_ms);

#endif
