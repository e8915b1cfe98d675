/*
 * Pair - a wire, and a test at the other end of it
 *
 * After each test no descriptor is left.
 */
#ifndef RELOCK_TEST_PAIR_H
#define RELOCK_TEST_PAIR_H

#include "redis/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern struct relock_wire wire;
extern int peer; /* the test's end */

int pair_begin(void **state);
int pair_end(void **state);

/* Anew. The wire's end does not block, so that RELOCK_AGAIN can be seen. */
void pair_connect(void);

void say(const char *bytes);

/* What the wire has sent, of `len` bytes at most. */
size_t hear(char *bytes, size_t len);

/* The wire has that reply; it has none. */
void takes(const char *text);
void takes_nothing(void);

#define WIRE_TEST(function) cmocka_unit_test_setup_teardown(function, pair_begin, pair_end)

#endif
