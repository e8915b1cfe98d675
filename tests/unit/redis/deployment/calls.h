/*
 * Calls - one call to a script server
 *
 * The fixture of tests of calls, on the terms of talk.h.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_CALLS_H
#define RELOCK_TEST_CALLS_H

#include "unit/common/talk.h"

extern struct relock_call call;

/* The call acquires `orders` for a minute. A test may change it. */
int calls_begin(void **state);
int calls_end(void **state);
void calls_acquire(void);

/* The server expects the call and answers it. */
void server_answers(const char *bytes);

/* Runs the call with a deadline that does not come. */
int run_call(void);

/* Runs it, and checks that it returns this number. */
void call_returns(int64_t integer);

#define CALL_TEST(function) cmocka_unit_test_setup_teardown(function, calls_begin, calls_end)

#endif
