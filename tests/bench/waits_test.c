/* The time that most calls do not exceed, from the waits of all. */
#include "waits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BEGIN_NS 1000000
#define END_NS UINT64_C(1000000000000)
#define CLOSE_TO 0.02 /* of a time */

static struct waits waits;

static int begin(void **state)
{
    (void)state;
    waits = (struct waits){0};
    waits_begin(&waits, BEGIN_NS);
    return 0;
}

static void add(uint64_t ns)
{
    waits_add(&waits, BEGIN_NS, BEGIN_NS + ns);
}

static void assert_percentile(double percent, double us)
{
    assert_float_equal(waits_percentile_us(&waits, percent) / us, 1, CLOSE_TO);
}

static void each_time_is_right_within_two_per_cent(void **state)
{
    for (uint64_t ns = 100; ns < END_NS / 2; ns += ns / 7) {
        (void)begin(state);
        add(ns);
        assert_percentile(100, (double)ns / 1000);
    }
}

static void one_of_a_thousand_waits_longer_than_the_percentile(void **state)
{
    (void)state;
    for (int i = 0; i < 999; i++)
        add(20000);
    add(7000000);
    assert_percentile(50, 20);
    assert_percentile(99.9, 20);
    assert_percentile(99.91, 7000);
    for (int i = 0; i < 9; i++)
        add(7000000);
    assert_percentile(99.1, 7000);
}

static void a_wait_counts_from_the_beginning_and_to_the_end_of_the_measurement(void **state)
{
    (void)state;
    waits_end(&waits, BEGIN_NS + 50000);
    waits_add(&waits, 1, BEGIN_NS + 30000);
    assert_percentile(100, 30);
    waits_add(&waits, BEGIN_NS + 10000, END_NS);
    assert_percentile(100, 40);
}

static void a_wait_before_or_after_the_measurement_does_not_count(void **state)
{
    (void)state;
    waits_end(&waits, BEGIN_NS + 50000);
    waits_add(&waits, 1, BEGIN_NS - 1);
    waits_add(&waits, BEGIN_NS + 50000, END_NS);
    assert_float_equal(waits_percentile_us(&waits, 100), 0, 0);
    waits = (struct waits){0};
    waits_add(&waits, BEGIN_NS, BEGIN_NS + 20000);
    assert_float_equal(waits_percentile_us(&waits, 100), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_time_is_right_within_two_per_cent),
        cmocka_unit_test_setup(one_of_a_thousand_waits_longer_than_the_percentile, begin),
        cmocka_unit_test_setup(a_wait_counts_from_the_beginning_and_to_the_end_of_the_measurement,
                               begin),
        cmocka_unit_test_setup(a_wait_before_or_after_the_measurement_does_not_count, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
