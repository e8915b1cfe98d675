/*
 * Kinds - the kinds of lock with one side: reentrant, fenced, spin, fair and plain
 *
 * Threads: any; all is constant.
 */
#ifndef RELOCK_KINDS_H
#define RELOCK_KINDS_H

#include "lock/state/kind.h"

/* That of relock_lock_new: Redisson's RLock. */
extern const struct relock_kind relock_kind_reentrant;

#endif
