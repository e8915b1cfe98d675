/*
 * Story - a history written by hand, for tests of the checker
 *
 * Of lock 0, and of processes that each have one life. Times are in milliseconds.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_STORY_H
#define RELOCK_TEST_STORY_H

#include "check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define STORY_NS_PER_MS 1000000

/* The limits for the checker. */
#define STORY_RECHECK_MS 1000
#define STORY_STOPPED_MS 200
#define STORY_SPIN_PAUSE_MS 100
#define STORY_PATIENCE_MS 3000
#define STORY_ROUND_TRIP_MS 500
#define STORY_RECOVERY_MS 2000

extern struct history_records story; /* of this story */
extern enum history_sort story_sort; /* of the following records; a reentrant lock at first */

/* Adds a record, which may be changed until the next is added. */
struct history_record *story_add(enum history_kind kind, int slot, unsigned hold, uint64_t from_ms,
                                 uint64_t to_ms);

/* Add the records of one step. */
void story_take(int slot, unsigned hold, uint64_t from_ms, uint64_t to_ms);
void story_claim(int slot, unsigned hold, uint64_t at_ms, int64_t valid_ms);
void story_leave(int slot, unsigned hold, uint64_t from_ms, uint64_t to_ms, int result);

/* Assert that no violation is found, or only this one, so often. */
void story_is_clean(void);
void story_shows(enum check_violation violation, size_t n);

/* The verdict of the checker. */
struct check_report story_report(void);

/* Around each test. */
int story_begin(void **state);
int story_end(void **state);

#define STORY_TEST(function) cmocka_unit_test_setup_teardown(function, story_begin, story_end)

#endif
