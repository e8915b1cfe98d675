/*
 * Cell - one measurement of the row contention: processes that all want one lock
 *
 * Each thread acquires the lock, sleeps for the time of the hold, releases the lock, and acquires
 * it again at once. The measurement begins when all threads have begun and the lock has gone round
 * once. It ends after `n_rounds`, but not before `min_s` and not after `max_s`.
 *
 * A program runs a cell with `--cell` and prints the figures on one line. So another relock-bench,
 * with the same rows and another library, can run the same cell.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_BENCH_CELL_H
#define RELOCK_BENCH_CELL_H

#include <stdbool.h>

#define CELL_PROCESSES_MAX 1000
#define CELL_THREADS_MAX 64
#define CELL_HOLD_MAX_MS 1000.0
#define CELL_SERVERS_MIN 3
#define CELL_SERVERS_MAX 9
#define CELL_ROUNDS_MAX 1000

struct cell {
    unsigned n_processes, n_threads; /* threads of each process */
    double hold_ms;
    double min_s, max_s;
    unsigned n_rounds;
    unsigned n_servers; /* of a red lock, started for the cell; 0: a lock at the given url */
};

enum cell_figure {
    CELL_LEAST,         /* acquisitions of the least-served process, in equal shares */
    CELL_LONGEST,       /* longest gap in acquisitions of others / processes */
    CELL_LONGEST_TURNS, /* longest gap in turns of others / processes */
    CELL_SCRIPTS,       /* EVALSHA per acquisition */
    CELL_PUBLISHES,     /* PUBLISH per acquisition */
    CELL_PER_SECOND,    /* acquisitions of all processes per second */
    CELL_LONGEST_WAIT,  /* longest wait in turns of others / processes */
    CELL_WAIT_US,       /* 99.9 % of the calls waited no longer */
    CELL_ROUNDS,        /* turns of all processes / processes */
    CELL_SECONDS,       /* the time in which all this was counted */
    CELL_FIGURES,
};

/* "PROCESSES,THREADS,HOLD_MS,MIN_S,MAX_S,ROUNDS", and ",SERVERS" for a red lock */
bool cell_parse(struct cell *cell, const char *text);
void cell_print(const double figures[CELL_FIGURES]);

/* Runs `program URL --cell ...` and reads what it prints. */
void cell_ask(const struct cell *cell, const char *program, const char *url,
              double figures[CELL_FIGURES]);

#endif
