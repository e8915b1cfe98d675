/*
 * Rows - what is measured: each row is a function that adds its results to the report
 *
 * A row makes its own client and connections and leaves no key behind. The sides take turns, round
 * by round or finer, so that what else the machine does hits them alike. Counts that must agree are
 * checked; times are not.
 *
 * Threads: the main one, while no other runs: a row may fork.
 */
#ifndef RELOCK_BENCH_ROWS_H
#define RELOCK_BENCH_ROWS_H

#include "report.h"

#include <relock.h>

struct redisContext;

#define NAME_MAX_LEN 64

struct plan {
    const char *url;
    unsigned rounds;
    double seconds; /* for each side of each round */
};

typedef void row_fn(const struct plan *plan, struct report *report);

/* One thread, nobody else: what the library adds to its two commands. */
void row_uncontended(const struct plan *plan, struct report *report);

/* Many threads with a lock each: shared connections against one for each thread. */
void row_own_locks(const struct plan *plan, struct report *report);

/* Eight threads on one lock: what passing it on inside the process is worth. */
void row_one_lock(const struct plan *plan, struct report *report);

/* From the release in one process to the acquire in another. */
void row_passing(const struct plan *plan, struct report *report);

/* ---- what rows share ------------------------------------------------------------------------ */

/* The name of a lock: no other run has it, and all with the same length of `what` cost the same. */
void row_name(char name[NAME_MAX_LEN], const char *what, unsigned number);

/* These end the program when they fail. */
struct relock_client *ours_client(const char *url);
struct relock_lock *ours_lock(struct relock_client *client, const char *name);
void ours_take(struct relock_lock *lock);
void ours_give(struct relock_lock *lock);
struct relock_stats ours_stats(struct relock_client *client);
void must_be_gone(struct redisContext *redis, const char *name);

#endif
