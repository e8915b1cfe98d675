/*
 * Owner - the number of the calling thread, and what becomes of it
 *
 * Threads number themselves from 1, other owners from RELOCK_OWNER_NAMED: so it shows which is
 * which. When a thread ends, every client lets go of what the number of the thread still holds.
 *
 * Threads: each for itself.
 */
#ifndef RELOCK_OWNER_H
#define RELOCK_OWNER_H

#include "lock/keys.h"

#include <stdbool.h>
#include <stdint.h>

/* The first owner that is no thread. */
#define RELOCK_OWNER_NAMED RELOCK_SERIALS

/* The number of the calling thread. */
uint64_t relock_owner_self(void);

/*
 * What a call means by `owner`, of which 0 is the calling thread. An owner that was `*named` may be
 * one for whom others act too.
 */
uint64_t relock_owner_resolve(uint64_t owner, bool *named);

/*
 * Sees to it that the end of the calling thread is noticed, should it be this owner. Returns false
 * when there is no memory for that: then it is to take nothing. Once true, true from then on.
 */
bool relock_owner_watch(uint64_t owner);

/*
 * The calling thread took, or gave up, a hold for this owner. So it is known whether a thread that
 * ends has anything to let go of.
 */
void relock_owner_count(uint64_t owner, int change);

#endif
