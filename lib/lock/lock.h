/*
 * Lock - a handle: a name on a client
 *
 * Threads: as the public header says.
 */
#ifndef RELOCK_LOCK_H
#define RELOCK_LOCK_H

#include "lock/client.h"

struct relock_lock {
    struct relock_client *client; /* a reference; constant */
    struct relock_site *site;     /* a reference; constant */
    const char *name;             /* stands in the site, or in that of a member; constant */
};

/* What relock_lock_new does, for each kind. */
int relock_lock_make(struct relock_client *client, const struct relock_kind *kind, const char *name,
                     struct relock_lock **lock);

/* Makes a handle for a site, of which the reference becomes the handle's. NULL when out of memory.
 */
struct relock_lock *relock_lock_for(struct relock_client *client, struct relock_site *site,
                                    const char *name) RELOCK_REQUIRES(client->mutex);

/* Frees a handle. Unlike relock_lock_free leaves the dead groups to others, for it is called from
 * their burial. */
void relock_lock_drop(struct relock_lock *lock);

/*
 * Gives up one level without asking Redis: the I/O thread tells it when that was the last. For a
 * callback, and the end of a client. Returns RELOCK_OK, RELOCK_NOT_OWNER, RELOCK_E_CLOSED.
 */
int relock_release_unasked(struct relock_lock *lock, uint64_t owner);

/*
 * relock_release and relock_extend of a lock that is no multi lock, arguments checked: Redis is
 * asked until the deadline.
 */
int relock_release_by(struct relock_lock *lock, uint64_t owner, uint64_t deadline_ms);
int relock_extend_by(struct relock_lock *lock, uint64_t owner, uint64_t lease_ms,
                     uint64_t deadline_ms);

/* The deadline of a release that begins now. */
uint64_t relock_release_limit_ms(const struct relock_lock *lock);

/* What a public call logs when it ends in a failure. Under no mutex. */
void relock_lock_log(const struct relock_lock *lock, uint64_t owner, const char *what, int result,
                     const char *why);

#endif
