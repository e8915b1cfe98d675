/*
 * Held - the holds of all processes, and whether such a history is possible
 *
 * Every process of the soak, in C or Java, writes a line for each hold, when it is over:
 *
 *     WHO KIND LOCK FROM TO TOKEN
 *
 * WHO is a thread of a process. FROM was read after the acquire and TO before the release, in
 * nanoseconds on CLOCK_MONOTONIC, which is System.nanoTime() too. TOKEN is that of a fenced lock,
 * else 0. KIND matters only for "read", whose holders may overlap, and for "fenced". A thread may
 * hold a lock twice: a writer that reads.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_HELD_H
#define RELOCK_TEST_HELD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HELD_WORD_MAX 32

struct held {
    char who[HELD_WORD_MAX], kind[HELD_WORD_MAX], lock[HELD_WORD_MAX];
    uint64_t from_ns, to_ns, token;
};

struct helds {
    struct held *at;
    size_t n, size;
};

void held_add(struct helds *helds, const struct held *held);
void held_free(struct helds *helds);

/* Adds the lines of a file. Ends the program on an invalid line. */
void held_read(struct helds *helds, const char *path);

/* Sorts the holds. Writes to `out` each impossible pair: holders at the same time, or a token
 * that is not greater than the one before. Returns the number of pairs. */
size_t held_check(struct helds *helds, FILE *out);

/* The number of holds of this kind by threads whose names begin with this. */
size_t held_count(const struct helds *helds, const char *who, const char *kind);

#endif
