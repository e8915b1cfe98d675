/*
 * Rows - the measurements: each row is a function that adds its results to the report
 *
 * A row makes its own client and connections and leaves no key behind. The sides take turns, round
 * by round or more often, so that other load on the machine affects both alike. Counts must agree;
 * times are not checked.
 *
 * Threads: the main one, while no other runs: a row may fork.
 */
#ifndef RELOCK_BENCH_ROWS_H
#define RELOCK_BENCH_ROWS_H

#include "report.h"

#include <relock.h>

struct cluster;
struct redisContext;
struct server;

#define NAME_MAX_LEN 64

#define NUMBERS_MAX 16

struct numbers {
    double at[NUMBERS_MAX];
    unsigned n;
};

/* The cells of the row contention: each combination. An empty list stands for the default. */
struct grid {
    struct numbers processes, threads, holds_ms;
    unsigned n_servers;  /* of a red lock; 0: a lock on one server */
    unsigned min_rounds; /* cells with fewer are left out; 0: none */
    bool whole;          /* the default is all cells */
    const char *against; /* another relock-bench, or NULL */
};

struct plan {
    const char *url;
    struct cluster *cluster; /* NULL: none; for the rows that can measure it */
    unsigned rounds;
    double seconds; /* time of each side in each round */

    /* For rows that measure time passing, or large ones. */
    unsigned long_rounds;
    double long_seconds;
    unsigned shrink; /* sizes are divided by this */

    struct grid grid;
};

typedef void row_fn(const struct plan *plan, struct report *report);

/* One thread alone: the cost of the library beside its two commands. */
void row_uncontended(const struct plan *plan, struct report *report);

/* The same over TLS. Uses its own server. */
void row_tls(const struct plan *plan, struct report *report);

/* Spinning before sleeping, and not, over each kind of connection. Uses its own servers. */
void row_spin(const struct plan *plan, struct report *report);

/* Many threads with a lock each: shared connections, compared with one per thread. */
void row_own_locks(const struct plan *plan, struct report *report);

/* Releases that leave their reply to the next command, by the library and by bare connections. */
void row_deferred(const struct plan *plan, struct report *report);

/* Eight threads on one lock: the gain by handing it off inside the process. */
void row_one_lock(const struct plan *plan, struct report *report);

/* From the release in one process to the acquire in another. */
void row_passing(const struct plan *plan, struct report *report);

/* Locks that stay with the process: pairs from memory, and how soon another client gets one. */
void row_cached(const struct plan *plan, struct report *report);
void row_recall(const struct plan *plan, struct report *report);

/* A held lock is deleted: how soon its holder hears. */
void row_lost(const struct plan *plan, struct report *report);

/* Locks that client tracking guards: commands, and memory of Redis. */
void row_armed(const struct plan *plan, struct report *report);

/* A plain lock that another library releases: how soon a waiter has it, and its commands. */
void row_plain(const struct plan *plan, struct report *report);

/* A cycle of processes: how soon one is refused. And many cycles, one after the other, and what the
 * search costs where there is none. */
void row_deadlock(const struct plan *plan, struct report *report);
void row_deadlock_storm(const struct plan *plan, struct report *report);

/* Commands per lock and unlock, per level, and per acquisition in a crowd. */
void row_commands(const struct plan *plan, struct report *report);

/* Commands of waiting threads. */
void row_waiting(const struct plan *plan, struct report *report);

/* Asynchronous calls: threads, and pairs compared with a thread for each. */
void row_async(const struct plan *plan, struct report *report);

/* Many clients wait for one lock, and it is released once. */
void row_clients(const struct plan *plan, struct report *report);

/* Two processes with eight threads each on one lock: the shares and the order. */
void row_fairness(const struct plan *plan, struct report *report);

/* Many processes on one lock: shares, waits, commands and throughput. */
void row_contention(const struct plan *plan, struct report *report);

/* Many held locks: whether they are renewed in time, and the cost. */
void row_holds(const struct plan *plan, struct report *report);

/* Many held locks: what their renewals cost the server, and calls beside them. */
void row_renewals(const struct plan *plan, struct report *report);

/* Many locks: the memory of a handle, of a held lock and of waits. */
void row_memory(const struct plan *plan, struct report *report);

/* Many handles, and many contended names: the cost of each, among few and among many. */
void row_handles(const struct plan *plan, struct report *report);
void row_names(const struct plan *plan, struct report *report);

/* A lock on five servers, compared with one server, and with two hanging servers. Uses its own
 * servers. */
void row_red(const struct plan *plan, struct report *report);

/* Locks spread over the masters of a cluster. Uses its own cluster. */
void row_cluster(const struct plan *plan, struct report *report);

/* A client that waits for many names of a cluster, and one that keeps many. Uses its own
 * cluster. */
void row_subscriptions(const struct plan *plan, struct report *report);

/* The throughput of redis-benchmark with the same script on the same server. */
void row_ceiling(const struct plan *plan, struct report *report);

/* ---- what rows share ----------------------------------------------------------------------- */

/* `n`, scaled by the plan, and at least 2. */
unsigned plan_size(const struct plan *plan, unsigned n);

/* The url of the cluster, if there is one, else of the server. */
const char *plan_url(const struct plan *plan);

/* report_add(), for a row that can measure the cluster: then the names say so. */
struct result *plan_add(const struct plan *plan, struct report *report, const char *id,
                        const char *title);

/* A lock name that is unique to this run. All names with the same length of `what` cost the
 * same. */
void row_name(char name[NAME_MAX_LEN], const char *what, unsigned number);

/* A server with TLS for server_stop(), or NULL: none can be had, or the library has no TLS. */
struct server *tls_server(void);

/* These end the program on failure. */
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

/* A thread begins to wait for this lock of the client, for which nobody else of it waits, and after
 * a pause another owner releases it. Returns how long it took from before `release` until the
 * thread had the lock. */
uint64_t ours_time_pass(struct relock_client *client, struct relock_lock *lock, uint64_t pause_ns,
                        void (*release)(void *arg), void *arg);

#endif
