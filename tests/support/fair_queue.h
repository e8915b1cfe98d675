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

/* The i-th from the head, "" if there are not so many. */
void fair_queue_field(struct fixture *f, int i, char field[FAIR_FIELD_MAX]);

/* How long the deadline of the i-th is away; below 0 if it is over. */
long long fair_queue_rest_ms(struct fixture *f, int i);

/* Somebody at the tail who is not there, as a waiter that died just now; and away with it. */
void fair_queue_add_dead(struct fixture *f, const char *field, long long patience_ms);
void fair_queue_remove(struct fixture *f, const char *field);

/* Waits until all that are in relock_lock() had their turn and gave it up, in whatever order. Sets
 * them to NULL. */
void fair_all_take_turns(struct relock_lock *lock, struct actor **waiting, int n);

#endif
