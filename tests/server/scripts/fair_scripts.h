/*
 * Fair scripts - the scripts of the fair lock "orders" by hand, and a look into its queue
 *
 * The queue is a list of owners, their deadlines are the scores of a sorted set, in ms since 1970.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_FAIR_SCRIPTS_H
#define RELOCK_TEST_FAIR_SCRIPTS_H

#include "support/fixture.h"

#define QUEUE "redisson_lock_queue:{orders}"
#define DEADLINES "redisson_lock_timeout:{orders}"
#define CHANNEL_OF(owner) "redisson_lock__channel:{orders}:" owner

#define A "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:1000000001"
#define B "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:1000000002"
#define C "77f1e0a2-3c5d-4e6f-8a9b-0c1d2e3f4a5b:1000000003"
#define D "77f1e0a2-3c5d-4e6f-8a9b-0c1d2e3f4a5b:1000000004"

/* Redisson's have small numbers, which distinguish them from ours. */
#define J1 "0c1d2e3f-8a9b-4e6f-8a9b-77f1e0a23c5d:31"
#define J2 "0c1d2e3f-8a9b-4e6f-8a9b-77f1e0a23c5d:33"
#define J3 "0c1d2e3f-8a9b-4e6f-8a9b-77f1e0a23c5d:35"

#define LEASE_MS 30000
#define PATIENCE_MS 15000
#define PATIENCE "15000"
#define REDISSON_MS 300000 /* how long a waiter of Redisson's may block the queue */

#define GRANTED (-100) /* below every reply of a refusal */

/* fair_lock.lua: GRANTED, or the reply to a refused caller. */
long long fair_lock(struct fixture *f, const char *owner, unsigned count);
long long fair_lock_with(struct fixture *f, uint64_t lease_ms, const char *owner, unsigned count,
                         uint64_t patience_ms);
long long fair_trylock(struct fixture *f, const char *owner);

/* The same for a waiter that listens to its channel, and how many intervals it may let pass. */
long long fair_listen(struct fixture *f, const char *owner, long long *n);

/* fair_unlock.lua and fair_force_unlock.lua */
long long fair_unlock(struct fixture *f, const char *owner, unsigned count);
long long fair_force_unlock(struct fixture *f, const char *owner);

/* The owner releases the lock or leaves the queue. */
void fair_leave(struct fixture *f, const char *owner);

/* A waiter of Redisson's at the tail, with the entries that Redisson writes and a deadline in
 * `rest_ms`. */
void fair_add_foreign(struct fixture *f, const char *owner, long long rest_ms);

/* Removes a waiter of Redisson's as Redisson does when it is granted the lock. */
void fair_take_foreign(struct fixture *f, const char *owner);

/* The waiter has been silent for too long. */
void fair_let_die(struct fixture *f, const char *owner);

/* Sets the deadline to `rest_ms` from now. */
void fair_set_rest(struct fixture *f, const char *owner, long long rest_ms);

/* Place in the queue, from 0; -1 if the owner is not in the queue, or in one key only. */
long long fair_place(struct fixture *f, const char *owner);
long long fair_length(struct fixture *f);

/* On the clock of the server. */
long long fair_deadline(struct fixture *f, const char *owner);
long long fair_now(struct fixture *f);

#endif
