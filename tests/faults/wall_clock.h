/*
 * Wall clock - the date that this program sees, including the library and libev
 *
 * Replaces the functions of the system that return the date; monotonic clocks pass through. The
 * date can be shifted by any number of seconds, and each read is counted.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_WALL_CLOCK_H
#define RELOCK_TEST_WALL_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define WALL_DAY_S 86400

/* Shifts the date by so much from now on. */
void wall_clock_set_off(int64_t seconds);

/* How often the date was read so far: by the library or program that contains `function`, and by
 * all others. */
size_t wall_clock_asked_by(const char *function);
size_t wall_clock_asked_by_others(const char *function);

#endif
