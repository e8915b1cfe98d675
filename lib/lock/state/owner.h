/*
 * Owner - the numbers of owners: each thread is one, and programs make others
 *
 * Threads are numbered from 1, other owners from RELOCK_OWNER_NAMED, so the number shows the sort.
 * When a thread ends, every client releases the locks that the thread still holds.
 *
 * Threads: any.
 */
#ifndef RELOCK_OWNER_H
#define RELOCK_OWNER_H

#include "lock/state/keys.h"

#include <relock.h>
#include <stdbool.h>
#include <stdint.h>

/* The first owner that is not a thread. */
#define RELOCK_OWNER_NAMED RELOCK_SERIALS

/* Called on a thread that ends and may still hold locks. */
typedef void relock_owner_exit_fn(uint64_t owner);
void relock_owner_on_exit(relock_owner_exit_fn *fn);

/* What the library knows of the calling thread. */
struct relock_self {
    uint64_t number;
    int n_holds;     /* acquired by the thread for itself and not released by it */
    bool is_watched; /* its end will be noticed */
};

/* That of the calling thread; only this thread may use it. */
struct relock_self *relock_owner_here(void);

/* The number that a call means by `owner`: 0 is the calling thread. */
static inline uint64_t relock_owner_resolve(uint64_t owner)
{
    return owner != 0 ? owner : relock_owner_self();
}

/*
 * If the calling thread is this owner, makes sure that its exit is noticed. Returns false when out
 * of memory: then the thread must not acquire. Once it has returned true, it always does.
 */
bool relock_owner_watch(uint64_t owner);

/*
 * The calling thread has acquired (1) or released (-1) a hold for this owner. A thread that holds
 * nothing ends without looking through the clients.
 */
void relock_owner_count(uint64_t owner, int change);

#endif
