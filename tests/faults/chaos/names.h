/*
 * Names - the locks of the workers, and their kinds
 *
 * There are two names of each kind. One is contended: for a while at a time nearly all workers want
 * the same one, so that each kind has its crowds. The other is quiet: seldom wanted and held for
 * long, with a long lease, so that neither other waiters nor the end of the lease wake a waiter
 * that missed its release. The kind of each name is drawn from the seed of the run.
 *
 * Red locks have their own servers: two contended names and two quiet ones. Of each pair, the
 * members of the first publish their releases, those of the second are plain.
 *
 * Of hot locks there are two that publish their releases: a reentrant one, and one of another kind,
 * which no client can acquire while its slot is half moved. Every worker wants both of them all the
 * time, each with other threads: if all waiters of one sleep in vain, no thread comes from the
 * other lock and finds it free.
 *
 * Even names are mixed ones without crowds: all contended names are wanted alike, so that each has
 * a holder when a master ends.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_NAMES_H
#define RELOCK_TEST_NAMES_H

#include "history.h"

#include <stdbool.h>

#define NAMES_N_KINDS 7
#define NAMES_N (2 * NAMES_N_KINDS) /* locks have numbers below this, */
#define NAMES_N_RED 4               /* or below this, */
#define NAMES_N_HOT 2               /* or below this */
#define NAMES_N_PERMITS 3           /* of each semaphore */

enum names_set { NAMES_MIXED, NAMES_RED, NAMES_HOT, NAMES_EVEN };

struct names {
    enum names_set set;
    uint64_t seed;
    int n;
    enum history_sort sorts[NAMES_N]; /* the write side's, for both sides */
};

void names_draw(struct names *names, enum names_set set, uint64_t seed);

const char *names_text(int lock);
bool names_is_quiet(const struct names *names, int lock);

/* The lock of the next attempt of this thread of a worker; changes the seed. */
int names_come(const struct names *names, int thread, uint64_t *seed);

#endif
