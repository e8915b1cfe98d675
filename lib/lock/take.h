/*
 * Take - the calls that take a lock: relock_acquire and its short forms
 *
 * Threads: any, under no mutex.
 */
#ifndef RELOCK_TAKE_H
#define RELOCK_TAKE_H

#include "lock/lock.h"

/*
 * As relock_acquire, with checked arguments. `stop` is of a call that collects several locks, as in
 * relock_acquire_init; else NULL.
 */
int relock_take(struct relock_lock *lock, const struct relock_how *how, struct relock_cancel *stop,
                struct relock_grant *grant);

#endif
