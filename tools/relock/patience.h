/*
 * Patience - how long `relock run` waits, and which failures it waits out
 *
 * A server that is down, loading or being replaced comes back. A wrong password does not become
 * right, and neither does a wrong url.
 *
 * Threads: the one that waits for the lock.
 */
#ifndef RELOCK_TOOL_PATIENCE_H
#define RELOCK_TOOL_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct patience {
    int64_t wait_ms;     /* 0: one attempt; RELOCK_FOREVER: no end */
    uint64_t began_ms;   /* by clock_ms() */
    int stop_fd;         /* readable: do not wait any more */
    unsigned n_failures; /* attempts that an outage has ended */
};

/* What is left of the wait; RELOCK_FOREVER stays. */
int64_t patience_left(const struct patience *patience);

/* Whether time can mend why no client was made: `why` is the log line. `url` is NULL for the
 * default. */
bool patience_mends(int result, const char *why, const char *url);

/* Pauses before the next attempt. False if there is no time for one, or `stop_fd` is readable. */
bool patience_pause(struct patience *patience);

#endif
