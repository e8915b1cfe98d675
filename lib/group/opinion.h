/*
 * Opinion - the holder of a multi or red lock, concluded from the answers about its members
 *
 * Threads: any; these are pure functions.
 */
#ifndef RELOCK_OPINION_H
#define RELOCK_OPINION_H

#include "lock/state/inspection.h"

/* The answer of one server of a red lock. */
struct relock_opinion {
    bool is_known; /* the server answered */
    bool is_ours;  /* it has the caller's vote */
    struct relock_inspection inspection;
};

/*
 * For a multi lock: `composite` begins as all 0, takes the members in order, and is ended with the
 * caller's levels. The lock is held if any member is.
 */
void relock_opinion_add(struct relock_inspection *composite, const struct relock_inspection *member,
                        const char *name, bool is_first);
void relock_opinion_end(struct relock_inspection *composite, unsigned count);

/*
 * For a red lock with `n` members, of which the caller has `count` levels. At least a quorum of the
 * opinions must be known. The lock is free if a quorum of servers say so; else it becomes free when
 * enough leases have ended for a quorum.
 */
struct relock_inspection relock_opinion_of_red(const struct relock_opinion *opinions, size_t n,
                                               unsigned count);

#endif
