/*
 * Survey - asks all servers of a multi or red lock for its holder, at the same time
 *
 * A survey ends as soon as its outcome is certain. For a red lock this takes a quorum of answers
 * that agree, so a minority that is down or hangs costs nothing. For a multi lock it takes an
 * answer for each member. A server that cannot be asked is asked again while there is time.
 *
 * A member on one server has one question; a red lock has one for each of its servers, and they
 * stand together. The answers about the members are concluded to one holder (relock_opinion_*).
 *
 * Threads: any, under no mutex; a field as it says.
 */
#ifndef RELOCK_SURVEY_H
#define RELOCK_SURVEY_H

#include "lock/state/inspection.h"
#include "lock/state/lock.h"

/* The operation `inspect` of multi and red locks. Blocks up to `command_timeout_ms`. */
int relock_survey_run(struct relock_lock *lock, const struct relock_claim *claim,
                      struct relock_inspection *inspection, char why[RELOCK_WHY_MAX]);

/* The answer of one server of a red lock. */
struct relock_opinion {
    bool is_known; /* the server answered */
    bool is_ours;  /* it has the caller's vote */
    struct relock_inspection inspection;
};

/*
 * For a multi lock: `composite` begins with the caller's levels and a `ttl_ms` of -2, and takes the
 * members in order. The lock is held if any member is.
 */
void relock_opinion_add(struct relock_inspection *composite, const struct relock_inspection *member,
                        const char *name);

/*
 * For a red lock with `n` members, of which the caller has `count` levels. At least a quorum of the
 * opinions must be known. The lock is free if a quorum of servers say so; else it becomes free when
 * enough leases have ended for a quorum.
 */
struct relock_inspection relock_opinion_of_red(const struct relock_opinion *opinions, size_t n,
                                               unsigned count);

#endif
