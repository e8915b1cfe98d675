/*
 * One wire - the wire of a test, and the replies that it has received
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_ONE_WIRE_H
#define RELOCK_TEST_ONE_WIRE_H

#include "redis/connect/connect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern struct relock_wire wire;

/* Check that the next reply is this text, or that there is none. */
void takes(const char *text);
void takes_nothing(void);

#endif
