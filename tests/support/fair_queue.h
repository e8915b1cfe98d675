/*
 * Fair queue - the waiters in Redis' queue for the fair lock "orders"
 *
 * Each waiter has a place of its own: an entry of the list, and a deadline in the sorted set.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_FAIR_QUEUE_H
#define RELOCK_TEST_FAIR_QUEUE_H

#include "support/actor.h"
#include "support/fixture.h"

#define FAIR_QUEUE "redisson_lock_queue:{orders}"
#define FAIR_DEADLINES "redisson_lock_timeout:{orders}"
#define FAIR_CHANNEL "redisson_lock__channel:{orders}"
#define FAIR_FIELD_MAX 80

/* A fair lock "orders", freed at the end of the test. */
struct relock_lock *fair_handle(struct fixture *f, struct relock_client *client);

/* Waits until so many stand there, each in both keys. */
bool fair_queue_wait(struct fixture *f, long long n);

/* The actor begins to wait for the lock, and is the `n`th on return; the same of `n` new actors,
 * one after the other, behind those that stand there. */
void fair_queue_begin(struct fixture *f, struct actor *waiting, struct relock_lock *lock,
                      long long n);
void fair_queue_line_up(struct fixture *f, struct actor **waiting, int n, struct relock_lock *lock);

/* The i-th from the head, "" if there are not so many. */
void fair_queue_field(struct fixture *f, int i, char field[FAIR_FIELD_MAX]);

/* Waits until the i-th has asked while it listened to its channel. */
bool fair_queue_wait_listens(struct fixture *f, int i);

/* Time until the deadline of the i-th; below 0 if it has passed. */
long long fair_queue_rest_ms(struct fixture *f, int i);

/* Adds a waiter at the tail that has just died, and removes it. */
void fair_queue_add_dead(struct fixture *f, const char *field, long long patience_ms);
void fair_queue_remove(struct fixture *f, const char *field);

/* Waits until all actors in relock_lock() have acquired and released it, in any order. Sets them to
 * NULL. */
void fair_all_take_turns(struct relock_lock *lock, struct actor **waiting, int n);

#endif
