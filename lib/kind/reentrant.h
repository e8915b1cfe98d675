/*
 * Reentrant lock - the kind that relock_lock_new makes: Redisson's RLock
 *
 * Threads: any; it is constant.
 */
#ifndef RELOCK_REENTRANT_H
#define RELOCK_REENTRANT_H

#include "lock/kind.h"

extern const struct relock_kind relock_kind_reentrant;

#endif
