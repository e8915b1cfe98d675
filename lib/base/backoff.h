/*
 * Backoff - the pause before the next retry: random, and growing on average up to a bound
 *
 * Randomness spreads callers that failed at the same moment ("decorrelated jitter").
 *
 * Threads: any; it has no state.
 */
#ifndef RELOCK_BACKOFF_H
#define RELOCK_BACKOFF_H

#include <stdint.h>

/* A pause from `min_ms` to three times the previous one, `max_ms` at most. `previous_ms`: 0 before
 * the first pause, which is as after one of `min_ms`. */
uint64_t relock_backoff_ms(uint64_t previous_ms, uint64_t min_ms, uint64_t max_ms);

#endif
