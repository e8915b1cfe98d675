/*
 * Lock - a handle of the program: the name of a lock on a client
 *
 * One handle of a lock is part of its resource: the first one, and when that was freed, the next.
 * Those of unlisted resources have memory of their own, with the name.
 *
 * Threads: as the public header says.
 */
#ifndef RELOCK_LOCK_H
#define RELOCK_LOCK_H

#include "lock/state/client.h"
#include "lock/state/resource.h"

#include <relock.h>
#include <stdint.h>

/* As relock_lock_new, for any kind. */
int relock_lock_make(struct relock_client *client, const struct relock_kind *kind, const char *name,
                     struct relock_lock **lock);

/* As that, for a key that begins with `prefix` instead of the client's. The client's follows in it,
 * because the name in the other library has it. */
int relock_lock_make_shared(struct relock_client *client, const struct relock_kind *kind,
                            struct relock_text prefix, const char *name, struct relock_lock **lock);

/* Makes a handle for a resource, and passes it the caller's reference. It has the name of `named`,
 * which is the resource itself unless that is unlisted. NULL when out of memory. */
struct relock_lock *relock_lock_for(struct relock_client *client, struct relock_resource *resource,
                                    const struct relock_resource *named)
    RELOCK_REQUIRES(client->mutex);

/* Frees a handle. As relock_lock_free, but without relock_client_reap, from which it is called. */
void relock_lock_drop(struct relock_lock *lock);

/*
 * Logs that a public call refuses an argument. `what` is a constant
 * string: the call, the argument, and what it must be. `client` and `lock` may be NULL: then there
 * is no log. Under no mutex; also in a forked child, and after the client was freed.
 */
void relock_client_log_refusal(struct relock_client *client, const char *what);
void relock_lock_log_refusal(const struct relock_lock *lock, const char *what);

/* Log the refusal. Return RELOCK_E_INVALID. */
static inline int relock_client_refuse(struct relock_client *by, const char *what)
{
    relock_client_log_refusal(by, what);
    return RELOCK_E_INVALID;
}

static inline int relock_lock_refuse(const struct relock_lock *of, const char *what)
{
    relock_lock_log_refusal(of, what);
    return RELOCK_E_INVALID;
}

/* Logs that a public call failed; `what` names the event. Under no mutex. */
void relock_lock_log(const struct relock_lock *lock, uint64_t owner, const char *what, int result,
                     const char *why);

/* As relock_lock_log, with the mutex of the lock's client locked; unlocks it meanwhile. */
void relock_lock_log_under(struct relock_client *client, const struct relock_lock *lock,
                           uint64_t owner, const char *what, int result, const char *why)
    RELOCK_REQUIRES(client->mutex);

#endif
