/*
 * Keeping - clients that keep locks which nobody uses (`keep_ms`)
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_KEEPING_H
#define RELOCK_TEST_KEEPING_H

#include "support/fixture.h"

/* Waits until the client hears recalls, so that what it acquires from now on is kept. Nothing is
 * kept at the end. While a node is being replaced, calls may find it unreachable: they are
 * repeated. */
void keeping_await(struct relock_client *client);

/* The same with a new client; `keep_ms` is an hour unless the options say otherwise. */
struct relock_client *keeping_client(struct fixture *f, const struct relock_options *options);

/* Acquires the lock and releases it: it is kept. */
void keeping_fill(struct relock_client *client, struct relock_lock *lock);

/* Waits until so many locks are kept. */
bool keeping_wait(struct relock_client *client, uint64_t n);

#endif
