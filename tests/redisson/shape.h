/*
 * Shape - the keys in the server and the published messages, as text
 *
 * For comparing two libraries. Necessary differences are removed: the id of the
 * client and the number behind it are "U:N", and times are rounded to tens of seconds. So a test
 * that compares them takes leases of at least that.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_SHAPE_H
#define RELOCK_TEST_SHAPE_H

#include "support/probe.h"

/* The keys that match a pattern, in their order, each with its type, its values and its lease;
 * valid until the next call of the probe. What Redisson keeps to answer a repeated unlock is not
 * among them: it is gone as soon as the unlock was answered. */
const char *shape_of(struct probe *probe, const char *pattern);

/* Subscribes to all channels there are. */
struct published;

struct published *published_open(const char *socket);

/* All that was published until now, a line each: channel, blank, message. Closes. The text is to be
 * freed. */
char *published_close(struct published *published, struct probe *probe);

#endif
