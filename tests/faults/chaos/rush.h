/*
 * Rush - when threads come to hot locks
 *
 * The same times for all processes. In a rush each thread comes back at once. Then nobody comes for
 * a while, and the threads that wait are served one after the other. If a wake-up is lost then, all
 * of them sleep on: neither a newcomer nor the thread that has just released finds the lock free.
 * Leases and rechecks must be at least a cycle long, because a waiter retries when they end.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_RUSH_H
#define RELOCK_TEST_RUSH_H

#include <stdint.h>

/* The time from one rush to the next. */
uint64_t rush_cycle_ms(void);

/* The time until the next rush; 0 in a rush. */
uint64_t rush_begins_in_ms(void);

/* The time until a calm that follows a whole rush, or the rest of one, is nearly over. */
uint64_t rush_is_felt_in_ms(void);

#endif
