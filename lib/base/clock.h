/*
 * Clock - time in milliseconds that no change of the date moves
 *
 * It counts while the machine is suspended, where the system has such a clock: leases run out
 * then, too. Deadlines are absolute; RELOCK_NEVER is the one that does not come.
 *
 * Threads: any.
 */
#ifndef RELOCK_CLOCK_H
#define RELOCK_CLOCK_H

#include <stdint.h>
#include <time.h>

#define RELOCK_NEVER UINT64_MAX

uint64_t relock_clock_now_ms(void);

/* The deadline `ms` after `now_ms`; RELOCK_NEVER when that is beyond all time. */
uint64_t relock_clock_after(uint64_t now_ms, uint64_t ms);

/* What is left until the deadline: 0 once it has passed, RELOCK_NEVER when it does not come. */
uint64_t relock_clock_left(uint64_t now_ms, uint64_t deadline_ms);

/* The same as a timeout of poll(2): rounded so that waiting for it reaches the deadline. */
int relock_clock_poll_ms(uint64_t now_ms, uint64_t deadline_ms);

/* So many milliseconds as the system wants them; ten years at most, for not all of it takes more.
 */
struct timespec relock_clock_span(uint64_t ms);

#endif
