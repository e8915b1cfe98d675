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
};

/* What relock_lock_new does, for each kind. */
int relock_lock_make(struct relock_client *client, const struct relock_kind *kind, const char *name,
                     struct relock_lock **lock);

/* What a public call logs when it ends in a failure. Under no mutex. */
void relock_lock_log(const struct relock_lock *lock, uint64_t owner, const char *what, int result,
                     const char *why);

#endif
