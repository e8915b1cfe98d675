/*
 * Held - the holds of all processes, and whether such a history is possible
 *
 * Every process of the soak, in C or Java, writes a line for each hold, when it is over:
 *
 *     WHO KIND LOCK FROM TO TOKEN
 *
 * WHO is a thread of a process, FROM was read when the lock had been taken and TO before it was
 * given up, in nanoseconds on CLOCK_MONOTONIC, which is System.nanoTime() too. TOKEN is that of a
 * fenced lock, else 0. KIND is only looked at for "read", whose holders may be together, and for
 * "fenced". A thread may hold what it holds twice: a writer that reads.
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

/* Adds the lines of a file. Ends the program if there is one that is none. */
void held_read(struct helds *helds, const char *path);

/* Sorts them, and writes each two that cannot be to `out`: holders at once, or a token that is not
 * greater than that before. Returns how many. */
size_t held_check(struct helds *helds, FILE *out);

/* How often somebody whose name begins so held a lock of the kind. */
size_t held_count(const struct helds *helds, const char *who, const char *kind);

#endif
