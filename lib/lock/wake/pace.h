/*
 * Pace - how soon the next command follows a report of Redis that was for nothing
 *
 * Redis may report a change each time that it is asked to: other clients share the lock, or the
 * table of tracked keys is full. Each report costs a command. The first follows at once, but when
 * reports keep coming the pause grows, until the ordinary renewals or polls are as frequent.
 *
 * Threads: any.
 */
#ifndef RELOCK_PACE_H
#define RELOCK_PACE_H

#include <stdint.h>

#define RELOCK_PACE_MIN_MS 10
#define RELOCK_PACE_CALM 4 /* after so many pauses without a report, the pause starts anew */

/* A report came at `now_ms` for a command sent at `sent_ms`. Returns when the next one may be sent,
 * and updates the pause. */
static inline uint64_t relock_pace_next(uint64_t *pause_ms, uint64_t sent_ms, uint64_t now_ms,
                                        uint64_t most_ms)
{
    uint64_t at_ms;

    if (now_ms - sent_ms >= *pause_ms * RELOCK_PACE_CALM)
        *pause_ms = 0;
    at_ms = sent_ms + *pause_ms;
    *pause_ms = *pause_ms > 0 ? 2 * *pause_ms : RELOCK_PACE_MIN_MS;
    if (*pause_ms > most_ms)
        *pause_ms = most_ms;
    return at_ms > now_ms ? at_ms : now_ms;
}

#endif
