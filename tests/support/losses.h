/*
 * Losses - the reports of an on_lost callback
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_LOSSES_H
#define RELOCK_TEST_LOSSES_H

#include <relock.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOSSES_MAX 64

struct loss {
    char name[64];
    uint64_t owner;
    int reason;
    unsigned hold_count;
    uint64_t at_ms;
    pthread_t thread;
};

struct losses;

struct losses *losses_new(void);
struct losses *losses_free(struct losses *losses);

/* A relock_lost_fn; `arg` is the losses. */
void losses_write(const struct relock_lost *what, void *arg);

/* A relock_lost_fn that drops every loss. */
void losses_drop(const struct relock_lost *what, void *arg);

size_t losses_count(struct losses *losses);

/* Waits until there are `n`. */
bool losses_wait(struct losses *losses, size_t n, uint64_t within_ms);

/* The i-th; all zero if there are not so many. */
struct loss losses_get(struct losses *losses, size_t i);

#endif
