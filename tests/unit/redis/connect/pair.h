/*
 * Pair - a wire, and a test at the other end of it
 *
 * After each test no descriptor is left.
 */
#ifndef RELOCK_TEST_PAIR_H
#define RELOCK_TEST_PAIR_H

#include "one_wire.h"

extern int peer; /* the end of the test */

int pair_begin(void **state);
int pair_end(void **state);

/* Connects again. The wire's end is non-blocking, so RELOCK_AGAIN can occur. */
void pair_connect(void);

void say(const char *bytes);

/* Reads what the wire has sent, at most `len` bytes. */
size_t hear(char *bytes, size_t len);

#define WIRE_TEST(function) cmocka_unit_test_setup_teardown(function, pair_begin, pair_end)

#endif
