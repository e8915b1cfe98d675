/*
 * Late - failures whose only cause is a time limit of the test
 *
 * A machine with other work may take longer for an event than a test waits for it. If an assertion
 * fails right after a wait whose deadline has passed, it prints a line that begins with "late: ".
 * tests/run.sh then runs this test again: tests/failures.py. A failure of any other kind, or a
 * leak, prints no such line.
 *
 * This file replaces four assertions of cmocka. The fixture includes it.
 *
 * Threads: any; each has its own last wait. Only the main thread asserts.
 */
#ifndef RELOCK_TEST_LATE_H
#define RELOCK_TEST_LATE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* At the end of a wait with a deadline: remembers whether the deadline passed. Returns `in_time`.
 */
bool late_unless(bool in_time);

/* Whether the last wait of this thread ended by its deadline, and no assertion was made since. */
bool late_was(void);

/* The wait that has just ended was for something that must not be left: its failure is a leak. */
void late_is_leak(void);

/* The case has ended by a late failure, so it is no wonder if it left something. late_begin()
 * stands at the beginning of each case. */
void late_begin(void);
bool late_has_failed(void);

#undef assert_true
#undef assert_false
#define assert_true(condition) late_check(!!(condition), #condition, __FILE__, __LINE__)
#define assert_false(condition) late_check(!(condition), "!(" #condition ")", __FILE__, __LINE__)

void late_check(bool condition, const char *text, const char *file, int line);

/* Of the result of a wait that is no bool: the answer of a player, the status of a process. */
#undef assert_string_equal
#undef assert_int_equal
#define assert_string_equal(a, b) late_check_text((a), (b), #a, __FILE__, __LINE__)
#define assert_int_equal(a, b) late_check_int((intmax_t)(a), (intmax_t)(b), #a, __FILE__, __LINE__)

void late_check_text(const char *a, const char *b, const char *text, const char *file, int line);
void late_check_int(intmax_t a, intmax_t b, const char *text, const char *file, int line);

/* It took no longer than that. */
#define assert_no_later(took_ms, limit_ms) \
    late_check_time((took_ms), (limit_ms), #took_ms, __FILE__, __LINE__)

void late_check_time(uint64_t took_ms, uint64_t limit_ms, const char *text, const char *file,
                     int line);

/* The test fails, because `text` did not happen in time. */
void late_fail(const char *text, const char *file, int line) __attribute__((noreturn));

#endif
