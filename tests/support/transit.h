/*
 * Transit - bytes that are on their way, and when they will be there
 *
 * In order: later bytes arrive no sooner.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_TRANSIT_H
#define RELOCK_TEST_TRANSIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transit_chunk;

struct transit {
    struct transit_chunk *first, *last;
};

/* To arrive at `due_ms` of the monotonic clock. None at all: the end, behind which nothing comes.
 */
void transit_send(struct transit *transit, const char *data, size_t n, uint64_t due_ms);

/* The next bytes that have arrived; false if none. They stay until transit_take(). */
bool transit_peek(const struct transit *transit, uint64_t now_ms, const char **data, size_t *n);
void transit_take(struct transit *transit);

/* When the next bytes arrive; UINT64_MAX: nothing is in flight. */
uint64_t transit_due_ms(const struct transit *transit);

void transit_deinit(struct transit *transit);

#endif
