/*
 * Queue - a resource with waiters, for tests of the queue
 *
 * It needs no client: a resource is state, and a gate shows which waiter was woken.
 */
#ifndef RELOCK_TEST_QUEUE_H
#define RELOCK_TEST_QUEUE_H

#include "lock/state/resource.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define N_WAITERS 4

/* New for each test, with an empty queue. */
extern struct relock_resource resource;
extern struct relock_waiter
    waiters[N_WAITERS]; /* of owners 1 to 4, waiting since 0, 100, 200, 300 ms */
extern struct relock_hold hold;

int queue_begin(void **state);
int queue_end(void **state);

/* All join, and the head has been woken. */
void join_all(void);

/* Waiter `i` is the head and asks Redis. */
void ask(int i);
bool may_ask(int i);

/* A local owner acquires the lock without having waited. */
void take(void);

/* Whether the waiter was woken since the last call. */
bool is_woken(int i);
void no_waiter_is_woken(void);

#define QUEUE_TEST(function) cmocka_unit_test_setup_teardown(function, queue_begin, queue_end)

#endif
