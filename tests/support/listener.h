/*
 * Listener - a plain subscriber of one channel
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_LISTENER_H
#define RELOCK_TEST_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

struct listener;

/* Over the unix socket at `path`; subscribed on return. */
struct listener *listener_open(const char *path, const char *channel);
struct listener *listener_close(struct listener *listener);

/* Waits for the next message and says whether it is `message`. */
bool listener_hears(struct listener *listener, const char *message, uint64_t within_ms);

/* The text of the next message, "" if none comes in time. Valid until the next call. */
const char *listener_next(struct listener *listener, uint64_t within_ms);

/* Whether nothing was published for `ms` (as they are: this is about time). */
bool listener_hears_nothing(struct listener *listener, uint64_t ms);

#endif
