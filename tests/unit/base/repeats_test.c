/* Repeated lines of one cause: which are written, and which are counted. */
#include "base/log.h"
#include "base/private.h"

#include "base/clock.h"

#include <relock.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define START_MS 100
#define PERIOD_MS RELOCK_REPEATS_PERIOD_MS
#define AT_ONCE RELOCK_REPEATS_AT_ONCE

static const struct relock_cause refused = {"refused", 0};
static const struct relock_cause refused_for_another_reason = {"refused", 1};
static const struct relock_cause lost = {"lost", 0};

static struct relock_repeats repeats;
static char line[RELOCK_LINE_MAX];
static int level;

static int begin(void **state)
{
    (void)state;
    repeats = (struct relock_repeats){0};
    line[0] = '\0';
    level = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_repeats_deinit(&repeats);
    return 0;
}

/* Lines "line 1" to "line n". Returns how many were admitted. */
static unsigned log_lines(struct relock_cause cause, unsigned n, uint64_t now_ms)
{
    unsigned n_admitted = 0;

    for (unsigned i = 1; i <= n; i++) {
        char text[32];

        snprintf(text, sizeof(text), "line %u", i);
        n_admitted += relock_repeats_admit(&repeats, cause, RELOCK_LOG_WARNING, text, now_ms);
    }
    return n_admitted;
}

static bool take(uint64_t now_ms)
{
    return relock_repeats_take(&repeats, now_ms, false, &level, line, sizeof(line));
}

static bool take_at_end(uint64_t now_ms)
{
    return relock_repeats_take(&repeats, now_ms, true, &level, line, sizeof(line));
}

static void the_first_lines_of_a_cause_are_admitted(void **state)
{
    (void)state;
    assert_int_equal(log_lines(refused, AT_ONCE, START_MS), AT_ONCE);
    assert_true(relock_repeats_next_ms(&repeats) == RELOCK_NEVER);
    assert_false(take(START_MS + PERIOD_MS));
    assert_false(take_at_end(START_MS));
}

static void suppressed_lines_are_counted_and_logged_with_the_latest(void **state)
{
    (void)state;
    assert_int_equal(log_lines(refused, 1000, START_MS), AT_ONCE);
    assert_int_equal(relock_repeats_next_ms(&repeats), START_MS + PERIOD_MS);
    assert_false(take(START_MS + PERIOD_MS - 1));
    assert_true(take(START_MS + PERIOD_MS));
    assert_string_equal(line, "line 1000 ... and 994 more in the last 10 s");
    assert_int_equal(level, RELOCK_LOG_WARNING);
    assert_true(relock_repeats_next_ms(&repeats) == RELOCK_NEVER);
    assert_false(take(START_MS + 3 * PERIOD_MS));
}

static void a_single_suppressed_line_is_logged_as_it_is(void **state)
{
    (void)state;
    log_lines(refused, AT_ONCE + 1, START_MS);
    assert_true(take(START_MS + PERIOD_MS));
    assert_string_equal(line, "line 6");
}

static void a_cause_that_continues_is_logged_once_per_period(void **state)
{
    uint64_t now_ms = START_MS;

    (void)state;
    log_lines(refused, 10, now_ms);
    for (unsigned i = 0; i < 3; i++) {
        now_ms += PERIOD_MS;
        assert_true(take(now_ms));
        assert_int_equal(log_lines(refused, 10, now_ms + 1), 0);
    }
    assert_true(take(now_ms + PERIOD_MS));
    assert_string_equal(line, "line 10 ... and 9 more in the last 10 s");
}

static void a_cause_that_was_quiet_for_a_period_starts_again(void **state)
{
    (void)state;
    log_lines(refused, 10, START_MS);
    assert_true(take(START_MS + PERIOD_MS));
    assert_int_equal(log_lines(refused, 10, START_MS + 2 * PERIOD_MS), AT_ONCE);
    assert_int_equal(relock_repeats_next_ms(&repeats), START_MS + 3 * PERIOD_MS);
}

static void few_lines_over_a_long_time_are_all_admitted(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(log_lines(refused, 1, START_MS + i * PERIOD_MS / AT_ONCE), 1);
}

static void causes_are_counted_separately(void **state)
{
    (void)state;
    assert_int_equal(log_lines(refused, 100, START_MS), AT_ONCE);
    assert_int_equal(log_lines(refused_for_another_reason, 50, START_MS + 1), AT_ONCE);
    assert_int_equal(log_lines(lost, 1, START_MS + 1), 1);
    assert_int_equal(relock_repeats_next_ms(&repeats), START_MS + PERIOD_MS);

    assert_true(take(START_MS + PERIOD_MS));
    assert_string_equal(line, "line 100 ... and 94 more in the last 10 s");
    assert_false(take(START_MS + PERIOD_MS));
    assert_true(take(START_MS + PERIOD_MS + 1));
    assert_string_equal(line, "line 50 ... and 44 more in the last 10 s");
}

static void at_the_end_all_counts_are_logged(void **state)
{
    (void)state;
    log_lines(refused, 100, START_MS);
    log_lines(lost, 10, START_MS);
    assert_true(take_at_end(START_MS + 2001));
    assert_string_equal(line, "line 10 ... and 4 more in the last 3 s");
    assert_true(take_at_end(START_MS + 2001));
    assert_string_equal(line, "line 100 ... and 94 more in the last 3 s");
    assert_false(take_at_end(START_MS + 2001));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_lines_of_a_cause_are_admitted, begin, end),
        cmocka_unit_test_setup_teardown(suppressed_lines_are_counted_and_logged_with_the_latest,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_single_suppressed_line_is_logged_as_it_is, begin, end),
        cmocka_unit_test_setup_teardown(a_cause_that_continues_is_logged_once_per_period, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_cause_that_was_quiet_for_a_period_starts_again, begin,
                                        end),
        cmocka_unit_test_setup_teardown(few_lines_over_a_long_time_are_all_admitted, begin, end),
        cmocka_unit_test_setup_teardown(causes_are_counted_separately, begin, end),
        cmocka_unit_test_setup_teardown(at_the_end_all_counts_are_logged, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
