/*
 * Urls - what tests of urls assert
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_URLS_H
#define RELOCK_TEST_URLS_H

#include "redis/server/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Both are the same text, or NULL. */
void assert_text(const char *got, const char *wanted);

/* The url is invalid, there is a reason, and nothing is left to free. */
void assert_refused(const char *text);

#endif
