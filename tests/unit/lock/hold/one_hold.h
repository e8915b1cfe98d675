/*
 * One hold - an offline client that holds its lock, and two owners that wait for it
 *
 * After each test the hold must have ended, and the test has its last reference.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_ONE_HOLD_H
#define RELOCK_TEST_ONE_HOLD_H

#include "unit/common/offline.h"

extern struct relock_waiter waiters[3]; /* of owners 1, 2, 3; their holds are renewed */
extern struct relock_hold *hold;        /* acquired by the first */
extern uint64_t sent_ms;                /* when that acquire was sent */

int one_hold_begin(void **state);
int one_hold_end(void **state);

/* When the hold is renewed after a renewal at that time. */
uint64_t renewal_after(uint64_t ms);

/* The last release, confirmed by Redis. */
void finish(void);

/* Whether that waiter was woken since the last call. */
bool is_woken(int i);

#define HOLD_TEST(function) cmocka_unit_test_setup_teardown(function, one_hold_begin, one_hold_end)

#endif
