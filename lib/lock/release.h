/*
 * Release - the calls that release a level of a lock or change its lease
 *
 * Threads: any, under no mutex.
 */
#ifndef RELOCK_RELEASE_H
#define RELOCK_RELEASE_H

#include "lock/lock.h"

/*
 * Releases one level without asking Redis; after the last one the I/O thread releases the lock
 * there. For callbacks and the end of a client. Returns RELOCK_OK, RELOCK_NOT_OWNER,
 * RELOCK_E_CLOSED.
 */
int relock_release_unasked(struct relock_lock *lock, uint64_t owner);

/*
 * As relock_release and relock_extend, with checked arguments and a deadline for the answer.
 */
int relock_release_by(struct relock_lock *lock, uint64_t owner, uint64_t deadline_ms);
int relock_extend_by(struct relock_lock *lock, uint64_t owner, uint64_t lease_ms,
                     uint64_t deadline_ms);

#endif
