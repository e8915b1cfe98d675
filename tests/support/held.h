/*
 * Held - the holds of all processes, and whether such a history is possible
 *
 * Every process, in C or Java, writes a line for each hold, when it is over:
 *
 *     WHO KIND LOCK FROM TO TOKEN [ACKED]
 *
 * WHO is a thread of a process. FROM was read after the acquire, and TO before the release, or
 * before the hold was last found to be certain, in nanoseconds on CLOCK_MONOTONIC, which is
 * System.nanoTime() too. TOKEN is that of a fenced lock, else 0. KIND matters only for "read"
 * and "semaphore", whose holders may overlap, and for "fenced". A thread may hold a lock twice: a
 * writer that reads. ACKED is the number of replicas that acknowledged the acquire.
 *
 * When a replica takes over from a master, Redis loses what that replica had not received. So a
 * pair of holds is excused if a failover touches the time in question, and no replica had
 * acknowledged one of the two.
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
    unsigned acked;
};

/* A time in which two holders may find out about a failover. */
struct held_failover {
    uint64_t from_ns, to_ns;
};

struct held_pairs {
    size_t impossible, excused;
};

struct helds {
    struct held *at;
    size_t n, size;
};

/* The clock of the holds. */
uint64_t held_now_ns(void);

void held_add(struct helds *helds, const struct held *held);
void held_free(struct helds *helds);

/* Adds the lines of a file. Ends the program on an invalid line. */
void held_read(struct helds *helds, const char *path);

/* Sorts the holds, and looks for pairs of holders at the same time, or of tokens that do not grow.
 * Writes each impossible pair to `out`. */
struct held_pairs held_check(struct helds *helds, const struct held_failover *failovers, size_t n,
                             FILE *out);

/* The number of holds of this kind by threads whose names begin with this. */
size_t held_count(const struct helds *helds, const char *who, const char *kind);

#endif
