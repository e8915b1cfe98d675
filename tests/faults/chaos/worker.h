/*
 * Worker - a process whose threads acquire locks, nest, work and release, and record each step
 *
 * It is this program, started again instead of forked, because this process has threads. It works
 * until a given time and reports when its last thread has released its holds. Then it keeps its
 * client until the order to end: a lock that is still held then has no owner.
 *
 * Threads: that which started it, which must live as long: the worker dies with its thread.
 */
#ifndef RELOCK_TEST_WORKER_H
#define RELOCK_TEST_WORKER_H

#include "history.h"
#include "names.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WORKER_MAX_THREADS 16
#define WORKER_RECHECK_MS 1000
#define WORKER_NAME_MAX 32
#define WORKER_SHORT_LEASE_MS 200 /* lease of workers that ignore it */
#define WORKER_ARGUMENT                                                       \
    "--worker" /* first argument of a worker; main() then calls worker_main() \
                */

struct worker_options {
    const char *urls; /* of Redis; for red locks several, separated by commas */
    const char *dir;  /* folder of histories and logs */
    int slot, life;
    int n_threads;
    uint64_t seed;
    enum names_set set;
    uint64_t names_seed; /* seed of the run, the same for all */
    uint64_t until_ns;
    uint64_t lease_ms; /* lease of the watchdog */
    unsigned min_replicas;
    uint64_t keep_ms;    /* of its clients */
    bool has_numbers;    /* its threads have latches and unleased semaphores, too */
    bool ignores_leases; /* takes short leases without watchdog, and believes to hold for ever */
};

struct worker {
    int slot, life;
    pid_t pid; /* 0: no process */
    int fd;
    char log[256]; /* the path of the log */
};

void worker_start(struct worker *worker, const struct worker_options *options);

/* The name of its connections, up to a colon. */
void worker_name(int slot, char name[WORKER_NAME_MAX]);

/* The longest lease of its locks. */
uint64_t worker_longest_lease_ms(uint64_t lease_ms, enum history_sort sort);

/* Whether it has ended by itself; `status` is that of waitpid(2). */
bool worker_has_ended(struct worker *worker, int *status);

/* Whether its threads are done. Does not wait. */
bool worker_is_idle(struct worker *worker);

/* Ends it. Returns the status of waitpid(2). */
int worker_stop(struct worker *worker);

void worker_kill(struct worker *worker);

int worker_main(int argc, char **argv);

#endif
