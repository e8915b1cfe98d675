/*
 * Multilock - several locks as one, all or none
 *
 * Threads: as said at each.
 */
#ifndef RELOCK_MULTILOCK_H
#define RELOCK_MULTILOCK_H

#include "lock/cancel.h"
#include "lock/client.h"

/* A call that takes one, while it lasts: the client of the first member may end its waiting. */
struct relock_multi {
    struct relock_cancel *stop;
    struct relock_multi *next, *prev; /* of the client */
};

/* As relock_acquire, arguments checked. */
int relock_multilock_acquire(struct relock_lock *lock, const struct relock_how *how,
                             struct relock_grant *grant);

/* The whole is worth no more than its weakest member. */
void relock_multilock_weaken(struct relock_grant *weakest, const struct relock_grant *member,
                             bool is_first);

/*
 * The client is about to be freed, and no call is on it: what it holds through multi locks is given
 * up, on other clients, too. Mutex held, and given up meanwhile.
 */
void relock_multilock_let_all_go(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
