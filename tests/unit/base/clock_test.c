/* Points in time, and the time that remains until them. */
#include "base/clock.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LAST (RELOCK_NEVER - 1) /* the last point in time before RELOCK_NEVER */

static void time_does_not_go_back(void **state)
{
    uint64_t before_ms = relock_clock_now_ms();

    (void)state;

    assert_true(before_ms > 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t now_ms = relock_clock_now_ms();

        assert_true(now_ms >= before_ms);
        before_ms = now_ms;
    }
}

static void a_deadline_is_later_by_the_given_time(void **state)
{
    (void)state;

    assert_int_equal(relock_clock_after(0, 0), 0);
    assert_int_equal(relock_clock_after(100, 0), 100);
    assert_int_equal(relock_clock_after(100, 5), 105);
    assert_int_equal(relock_clock_after(0, LAST), LAST);
    assert_int_equal(relock_clock_after(LAST, 0), LAST);
}

static void a_deadline_beyond_all_time_never_comes(void **state)
{
    (void)state;

    assert_true(relock_clock_after(1, LAST) == RELOCK_NEVER);
    assert_true(relock_clock_after(LAST, 1) == RELOCK_NEVER);
    assert_true(relock_clock_after(LAST, LAST) == RELOCK_NEVER);
    assert_true(relock_clock_after(0, RELOCK_NEVER) == RELOCK_NEVER);
    assert_true(relock_clock_after(100, RELOCK_NEVER) == RELOCK_NEVER);
    assert_true(relock_clock_after(RELOCK_NEVER, 0) == RELOCK_NEVER);
}

static void no_time_remains_after_the_deadline(void **state)
{
    (void)state;

    assert_int_equal(relock_clock_left(100, 105), 5);
    assert_int_equal(relock_clock_left(104, 105), 1);
    assert_int_equal(relock_clock_left(105, 105), 0);
    assert_int_equal(relock_clock_left(106, 105), 0);
    assert_int_equal(relock_clock_left(LAST, 0), 0);
    assert_true(relock_clock_left(0, LAST) == LAST);
}

static void forever_remains_until_a_deadline_that_never_comes(void **state)
{
    (void)state;

    assert_true(relock_clock_left(0, RELOCK_NEVER) == RELOCK_NEVER);
    assert_true(relock_clock_left(LAST, RELOCK_NEVER) == RELOCK_NEVER);
}

static void poll_waits_for_the_remaining_time(void **state)
{
    (void)state;

    assert_int_equal(relock_clock_poll_ms(100, 105), 5);
    assert_int_equal(relock_clock_poll_ms(104, 105), 1);
    assert_int_equal(relock_clock_poll_ms(105, 105), 0);
    assert_int_equal(relock_clock_poll_ms(106, 105), 0);
}

static void poll_waits_as_long_as_it_can_say(void **state)
{
    (void)state;

    assert_int_equal(relock_clock_poll_ms(0, INT_MAX - 1), INT_MAX - 1);
    assert_int_equal(relock_clock_poll_ms(0, INT_MAX), INT_MAX);
    assert_int_equal(relock_clock_poll_ms(0, (uint64_t)INT_MAX + 1), INT_MAX);
    assert_int_equal(relock_clock_poll_ms(0, (uint64_t)UINT_MAX + 1), INT_MAX);
    assert_int_equal(relock_clock_poll_ms(0, LAST), INT_MAX);
    assert_true(relock_clock_poll_ms(100, RELOCK_NEVER) < 0);
}

static void a_span_is_seconds_and_nanoseconds(void **state)
{
    struct timespec span = relock_clock_span(61001);

    (void)state;
    assert_int_equal(span.tv_sec, 61);
    assert_int_equal(span.tv_nsec, 1000000);
    span = relock_clock_span(RELOCK_NEVER); /* invalid on every system */
    assert_int_equal(span.tv_sec, 315360000);
    assert_int_equal(span.tv_nsec, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_does_not_go_back),
        cmocka_unit_test(a_deadline_is_later_by_the_given_time),
        cmocka_unit_test(a_deadline_beyond_all_time_never_comes),
        cmocka_unit_test(no_time_remains_after_the_deadline),
        cmocka_unit_test(forever_remains_until_a_deadline_that_never_comes),
        cmocka_unit_test(poll_waits_for_the_remaining_time),
        cmocka_unit_test(poll_waits_as_long_as_it_can_say),
        cmocka_unit_test(a_span_is_seconds_and_nanoseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
