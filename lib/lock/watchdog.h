/*
 * Watchdog - keeps what is held, and sees when it is not
 *
 * A hold is due a third of its lease after its last renewal. Due renewals go out one behind the
 * other, one key each, without waiting. One that is not answered makes its hold suspect, and is
 * tried again until the hold is no longer certain: then it is lost. The same thread releases the
 * numbers that Redis may hold and nobody does.
 *
 * Renewing what nobody holds is impossible by construction: only a hold has the timer for it.
 *
 * Threads: the I/O thread.
 */
#ifndef RELOCK_WATCHDOG_H
#define RELOCK_WATCHDOG_H

#include "lock/client.h"

/* The timer of a hold: renew it, lose it or settle it. Mutex held. */
void relock_watchdog_fire(struct relock_timer *timer, uint64_t now_ms);

/* The connection is there, perhaps again: whatever it could not be asked is due now. `arg` is the
 * client. */
void relock_watchdog_up(void *arg);

/* Longest that an answer may take before the connection is given up, and tried anew in time. */
uint64_t relock_watchdog_answer_ms(const struct relock_options *options);

#endif
