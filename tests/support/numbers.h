/*
 * Numbers - the latches and the unleased semaphores of a test
 *
 * Threads: the main one; the steps are for actors.
 */
#ifndef RELOCK_TEST_NUMBERS_H
#define RELOCK_TEST_NUMBERS_H

#include "support/fixture.h"

#include <relock.h>

#include <stdint.h>

/* Handles of this test, freed at its end. */
struct relock_latch *latch_of(struct relock_client *client, const char *name);
struct relock_unleased *semaphore_of(struct relock_client *client, const char *name);

/* Frees the handles of the test. */
void numbers_free(void);

/* As SERVER_TEST, with such handles. */
int numbers_end(void **state);
#define NUMBER_TEST(function) cmocka_unit_test_setup_teardown(function, fixture_begin, numbers_end)

/* A wait for a latch, and the step that waits. */
struct latch_wait {
    struct relock_latch *latch;
    int64_t wait_ms;
    struct relock_cancel *cancel;
};

int latch_step(void *wait);

/* The same for permits. */
struct permits_wait {
    struct relock_unleased *semaphore;
    unsigned n;
    int64_t wait_ms;
    struct relock_cancel *cancel;
};

int permits_step(void *wait);

#endif
