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

    /* For rows that watch time pass, or that are large. */
    unsigned long_rounds;
    double long_seconds;
    unsigned shrink; /* sizes are divided by this */
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

/* What Redis is asked for a pair, a level, an acquisition in a crowd. */
void row_commands(const struct plan *plan, struct report *report);

/* What Redis is asked by threads that wait. */
void row_waiting(const struct plan *plan, struct report *report);

/* Many clients wait for one lock, and it is released once. */
void row_clients(const struct plan *plan, struct report *report);

/* Two processes with eight threads each on one lock: who gets it how often, and in what order. */
void row_fairness(const struct plan *plan, struct report *report);

/* Many held locks: are they renewed in time, and what does that cost. */
void row_holds(const struct plan *plan, struct report *report);

/* Many handles, and many names that are waited for: what each costs among few and among many. */
void row_handles(const struct plan *plan, struct report *report);
void row_names(const struct plan *plan, struct report *report);

/* A lock on five servers: against one, and with two of them hanging. On servers of its own. */
void row_red(const struct plan *plan, struct report *report);

/* What redis-benchmark makes of the same script on the same server. */
void row_ceiling(const struct plan *plan, struct report *report);

/* ---- what rows share ----------------------------------------------------------------------- */

/* `n` as the plan wants it, and at least 2. */
unsigned plan_size(const struct plan *plan, unsigned n);

/* The name of a lock: no other run has it, and all with the same length of `what` cost the same. */
void row_name(char name[NAME_MAX_LEN], const char *what, unsigned number);

/* These end the program when they fail. */
void ours_must(int result, const char *what);
struct relock_client *ours_client(const char *url);
struct relock_client *ours_client_with(const char *url, const struct relock_options *options);
struct relock_lock *ours_lock(struct relock_client *client, const char *name);
void ours_take(struct relock_lock *lock);
void ours_give(struct relock_lock *lock);
struct relock_stats ours_stats(struct relock_client *client);
void must_be_gone(struct redisContext *redis, const char *name);

/* Waits until so many calls of the client wait. */
void ours_await_waiters(struct relock_client *client, unsigned n);

#endif
