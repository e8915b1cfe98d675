/*
 * Arena - processes that contend for one lock, and what this costs
 *
 * Threads: the main one, while no other runs: this forks.
 */
#ifndef RELOCK_BENCH_ARENA_H
#define RELOCK_BENCH_ARENA_H

#include "cell.h"

/* Runs the cell. Its processes have ended when this returns. */
void arena_run(const struct cell *cell, const char *url, double figures[CELL_FIGURES]);

#endif
