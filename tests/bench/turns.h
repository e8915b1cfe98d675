/*
 * Turns - in which order processes got a contended lock, and how long each had to wait
 *
 * The holder of the lock records its acquisition, so there is one order of all acquisitions. A turn
 * of a process is an acquisition that Redis granted, with those that its threads then handed off to
 * each other.
 *
 * A gap is the acquisitions, or turns, of other processes between two of one process. A wait is the
 * part of a gap in which a thread of the process was inside of a call that acquires the lock: a
 * process that has released the lock and is not run by the system leaves a gap and does not wait.
 * Gaps and waits that began before the measurement count from its beginning, and those that last
 * until its end count, too.
 *
 * Threads: any may call turns_ask(), only the holder of the lock turns_take(), and one thread the
 * other functions.
 * Memory that processes share may contain this.
 */
#ifndef RELOCK_BENCH_TURNS_H
#define RELOCK_BENCH_TURNS_H

#include "cell.h"

#include <stdatomic.h>
#include <stdint.h>

/* One process. */
struct turns_process {
    atomic_uint_fast64_t n; /* acquisitions */
    uint64_t n_granted;     /* as passed to turns_take() */
    uint64_t from;          /* acquisitions before the measurement */

    /* All acquisitions and turns up to its last one. */
    uint64_t last, last_turn;

    uint64_t longest, longest_turns; /* gaps */

    /* Threads that are inside of a call, and the turns up to the moment when the first of them
     * began. A thread that began at the same time may make this too early, but not too late. */
    atomic_uint n_asking;
    atomic_uint_fast64_t asked_turn;
    uint64_t longest_wait; /* in turns */
};

/* Empty when zeroed. */
struct turns {
    atomic_uint_fast64_t n, n_turns; /* of all processes */
    uint64_t from, from_turn;        /* of these, before the measurement */
    atomic_bool measuring, over;
    unsigned n_processes;
    struct turns_process processes[CELL_PROCESSES_MAX];
};

struct turns_summary {
    uint64_t n;           /* acquisitions by all */
    double rounds;        /* turns by all / processes */
    double least;         /* acquisitions of the process that has fewest, in equal shares */
    double longest;       /* longest gap in acquisitions of others / processes */
    double longest_turns; /* longest gap in turns of others / processes */
    double longest_wait;  /* longest wait in turns of others / processes */
};

void turns_init(struct turns *turns, unsigned n_processes);

/* The caller is about to ask for the lock. */
void turns_ask(struct turns *turns, unsigned process);

/* The caller has acquired the lock after turns_ask(). `n_granted` counts how often Redis has
 * granted it to this process. False after the end: the acquisition is not counted. */
bool turns_take(struct turns *turns, unsigned process, uint64_t n_granted);

/* Turns so far, of all processes. */
uint64_t turns_count(struct turns *turns);

/* The measurement begins, and ends. */
void turns_begin(struct turns *turns);
void turns_end(struct turns *turns);

/* After the end, when no process runs any more. */
struct turns_summary turns_summary(struct turns *turns);

#endif
