/*
 * Take - the calls that take a lock: relock_acquire and its short forms
 *
 * Threads: any, under no mutex.
 */
#ifndef RELOCK_TAKE_H
#define RELOCK_TAKE_H

#include "lock/lock.h"

/*
 * As relock_acquire, with checked arguments.
 *
 * If a call collects several locks and acquires this one for them, `stop` is its cancel and ends
 * the wait; else NULL. A loss is then reported only to the observers of the hold, and a fixed lease
 * is renewed until relock_levels_stop_keeping, for the other locks may take longer. If that call is
 * a try, its commands are abandoned at `abandon_ms`; else RELOCK_NEVER.
 */
int relock_take(struct relock_lock *lock, const struct relock_how *how, struct relock_cancel *stop,
                uint64_t abandon_ms, struct relock_grant *grant);

#endif
