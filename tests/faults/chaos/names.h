/*
 * Names - the locks that workers take, and of which kind each is
 *
 * Of each kind there are two. One is wanted by many; for a while at a time nearly all want the same
 * one, so that each kind has its crowds. The other is quiet: seldom wanted, held for long, with a
 * lease that ends late, so that a waiter that missed its release is not woken by others, nor by the
 * end of the lease. Which name has which kind, and which one is wanted when, is drawn from the seed
 * of the run.
 *
 * Red locks are another world, with servers of its own: there are two that many want and two quiet
 * ones. Of each two the members of the first announce their releases, those of the second are
 * plain.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_NAMES_H
#define RELOCK_TEST_NAMES_H

#include "history.h"

#include <stdbool.h>

#define NAMES_N_KINDS 6
#define NAMES_N (2 * NAMES_N_KINDS) /* locks are numbers below this, */
#define NAMES_N_RED 4               /* or this */

struct names {
    uint64_t seed;
    int n;
    enum history_sort sorts[NAMES_N]; /* the write side stands for both */
};

void names_draw(struct names *names, uint64_t seed);
void names_draw_red(struct names *names);

const char *names_text(int lock);
bool names_is_quiet(const struct names *names, int lock);

/* The lock that someone comes for now; changes the seed of that one. */
int names_come(const struct names *names, uint64_t *seed);

#endif
