/*
 * Arguments - those of relock-chaos; main.c says what they mean
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_ARGUMENTS_H
#define RELOCK_TEST_ARGUMENTS_H

#include <stdint.h>

struct arguments {
    uint64_t seed, seconds;
    int n_processes, n_threads; /* 0: as usual for these locks */
    int set;                    /* enum names_set */
    int min_replicas;
    int keeps, has_tls, is_cluster, is_plain, no_watchdog, forgets, is_silent;
    int expects_two_holders, expects_sleepers;
};

/* Reads them over the defaults in `a`. Ends the program if they make no sense. */
void arguments_read(struct arguments *a, int argc, char **argv);

#endif
