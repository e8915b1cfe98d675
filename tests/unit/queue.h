/*
 * Queue - a site with waiters, for tests of what goes on in it
 *
 * Nothing of a client is needed: a site is state, and a gate shows who was woken.
 */
#ifndef RELOCK_TEST_QUEUE_H
#define RELOCK_TEST_QUEUE_H

#include "lock/site.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define N_WAITERS 4

/* New for each test; nobody has joined. */
extern struct relock_site site;
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

#define SITE_TEST(function) cmocka_unit_test_setup_teardown(function, queue_begin, queue_end)

#endif
