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

/* Returns a pause from `min_ms` to three times the previous one, at most `max_ms`. `previous_ms` is
 * 0 for the first pause, which counts as `min_ms`. */
uint64_t relock_backoff_ms(uint64_t previous_ms, uint64_t min_ms, uint64_t max_ms);

#endif
