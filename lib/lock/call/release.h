/*
 * Release - the calls that release a level of a lock or change its lease
 *
 * Threads: any, under no mutex.
 */
#ifndef RELOCK_RELEASE_H
#define RELOCK_RELEASE_H

#include "lock/state/lock.h"

/*
 * Releases one level without asking Redis; after the last one the I/O thread releases the lock
 * there. For callbacks and the end of a client. Returns RELOCK_OK, RELOCK_NOT_OWNER,
 * RELOCK_E_CLOSED.
 */
int relock_release_unasked(struct relock_lock *lock, uint64_t owner);

/*
 * As relock_release and relock_extend, with checked arguments and a deadline for the answer.
 * `counts`: the program has made the call.
 */
int relock_release_by(struct relock_lock *lock, uint64_t owner, uint64_t deadline_ms, bool counts);
int relock_extend_by(struct relock_lock *lock, uint64_t owner, uint64_t lease_ms,
                     uint64_t deadline_ms);

/* As relock_release_unasked, with the mutex locked. Waits for a callback only if `may_wait`. */
int relock_release_level(struct relock_lock *lock, uint64_t owner, bool may_wait)
    RELOCK_REQUIRES(lock->client->mutex);

/* Another command of this owner is unanswered at the deadline: Redis learns of the release after
 * that command. Waits for a callback only if `may_wait`. Returns as relock_release. */
int relock_release_late(struct relock_lock *lock, uint64_t owner, bool may_wait)
    RELOCK_REQUIRES(lock->client->mutex);

/* A level of a lost hold is released: its count is already less. Waits for a callback after the
 * last one. Returns RELOCK_LOST. */
int relock_release_lost(struct relock_client *client, struct relock_hold *hold,
                        uint64_t deadline_ms) RELOCK_REQUIRES(client->mutex);

/* The facts that were known when a last release was sent. */
struct relock_release_view {
    uint64_t owner;
    bool is_subscribed;
    struct relock_line_view line;
    uint64_t began_us; /* when it was sent */
    uint64_t held_us;  /* how long the hold had lasted */
    bool counts;       /* whether `held_us` goes into the histogram of holds */
};

/* The last release, before and after the operation `release`; the count is already 0. The first
 * step returns false if the hold was handed off, so that Redis is not asked. The second returns as
 * relock_release. */
bool relock_release_begin_last(struct relock_lock *lock, struct relock_hold *hold,
                               struct relock_release_view *view)
    RELOCK_REQUIRES(lock->client->mutex);
int relock_release_end_last(struct relock_lock *lock, struct relock_hold *hold,
                            const struct relock_release_view *view,
                            const struct relock_answer *answer)
    RELOCK_REQUIRES(lock->client->mutex);

#endif
