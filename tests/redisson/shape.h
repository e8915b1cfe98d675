/*
 * Shape - the keys in the server and the published messages, as text
 *
 * For comparing two libraries. Necessary differences are removed: a client id with its number
 * becomes "U:N", and times are rounded to tens of seconds. So leases in such a test must be at
 * least that long.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_SHAPE_H
#define RELOCK_TEST_SHAPE_H

#include "support/probe.h"

/* The keys that match a pattern, sorted, each with its type, values and lease; valid until the
 * next call of the probe. Without the key in which Redisson keeps the reply to an unlock for a
 * moment. */
const char *shape_of(struct probe *probe, const char *pattern);

/* Subscribes to all channels, or to the sharded ones of the lock "orders". */
struct published;

struct published *published_open(const char *socket, bool is_sharded);

/* The messages published until now, one line each: channel, blank, message. Closes the
 * subscription. Free the text. */
char *published_close(struct published *published, struct probe *probe);

#endif
