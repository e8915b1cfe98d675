/*
 * Queue - a resource with waiters, for tests of the queue
 *
 * It needs no client: a resource is state, and a gate shows which waiter was woken.
 */
#ifndef RELOCK_TEST_QUEUE_H
#define RELOCK_TEST_QUEUE_H

#include "lock/resource.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define N_WAITERS 4

/* New for each test; nobody has joined. */
extern struct relock_resource resource;
extern struct relock_waiter waiters[N_WAITERS]; /* of owners 1 to 4, come at 0, 100, 200, 300 ms */
extern struct relock_hold hold;

int queue_begin(void **state);
int queue_end(void **state);

/* All join, and the head has looked up. */
void join_all(void);

/* What the head does when it asks Redis. */
void ask(int i);
bool may_ask(int i);

/* Somebody here holds, without having waited. */
void take(void);

/* Whether the waiter was woken since it was last looked at. */
bool is_woken(int i);
void nobody_is_woken(void);

#define QUEUE_TEST(function) cmocka_unit_test_setup_teardown(function, queue_begin, queue_end)

#endif
