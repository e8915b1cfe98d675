/*
 * Wait - time in tests
 *
 * A test waits for an event with a deadline and never sleeps in the hope that something has
 * happened by then. Deadlines are for failing tests only, so they are generous, and
 * RELOCK_TEST_SLOW (a factor, 1 if unset) stretches them further where programs run slowly: under
 * sanitizers and valgrind.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_WAIT_H
#define RELOCK_TEST_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/* For events that should happen at once. */
#define SOON_MS 10000

/* For a lease, a wait or a recheck that ends after every test. */
#define NEVER_MS 600000

/* How much shorter a time measured here may seem than by a clock of the library or of Redis: each
 * counts whole milliseconds. */
#define TWO_CLOCKS_MS 2

/* Milliseconds on the monotonic clock. */
uint64_t now_ms(void);

/* `ms` times RELOCK_TEST_SLOW: for leases and time-outs that must not be hit by a slow machine. */
uint64_t slow_ms(uint64_t ms);

/* For leases and time-outs that have to outlast a stop of the machine, of a second or so, and that
 * a test waits for: at least `ms`. A slow machine stops for no longer than others, so this grows
 * less than slow_ms(), which would count the stop twice. */
uint64_t outlast_ms(uint64_t ms);

/* now_ms() + slow_ms(ms) */
uint64_t deadline_in(uint64_t ms);

typedef bool wait_predicate_fn(void *arg);

/* Asks until the answer is yes; says false if it was still no after slow_ms(within_ms). */
bool wait_until(wait_predicate_fn *predicate, void *arg, uint64_t within_ms);

/* Lets time pass, where a test is about time: that nothing happens, or that something goes on. */
void let_pass(uint64_t ms);

#endif
