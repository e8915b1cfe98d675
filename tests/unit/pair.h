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
extern int peer; /* the end of the test */

int pair_begin(void **state);
int pair_end(void **state);

/* Connects again. The wire's end is non-blocking, so RELOCK_AGAIN can occur. */
void pair_connect(void);

void say(const char *bytes);

/* Reads what the wire has sent, at most `len` bytes. */
size_t hear(char *bytes, size_t len);

/* Check that the next reply is this text, or that there is none. */
void takes(const char *text);
void takes_nothing(void);

#define WIRE_TEST(function) cmocka_unit_test_setup_teardown(function, pair_begin, pair_end)

#endif
