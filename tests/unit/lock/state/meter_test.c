/* The buckets of durations, and the counters of contended names. */
#include "lock/state/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_duration_is_in_the_bucket_that_begins_before_it(void **state)
{
    (void)state;

    for (unsigned i = 0; i < RELOCK_HISTOGRAM_BUCKETS - 1; i++) {
        assert_int_equal(relock_meter_bucket(RELOCK_HISTOGRAM_FROM_US(i)), i);
        assert_int_equal(relock_meter_bucket(RELOCK_HISTOGRAM_FROM_US(i + 1) - 1), i);
    }
    assert_true(RELOCK_HISTOGRAM_FROM_US(127) > UINT64_C(2) * 3600 * 1000000 / 2);
    assert_int_equal(relock_meter_bucket(UINT64_MAX), RELOCK_HISTOGRAM_BUCKETS - 1);
}

static void a_histogram_has_the_number_and_the_sum(void **state)
{
    struct relock_histogram histogram = {0};

    (void)state;

    relock_meter_add(&histogram, 0);
    relock_meter_add(&histogram, 5);
    relock_meter_add(&histogram, 1000);
    assert_int_equal(histogram.count, 3);
    assert_int_equal(histogram.sum_us, 1005);
    assert_int_equal(histogram.buckets[0], 1);
    assert_int_equal(histogram.buckets[5], 1);
    assert_int_equal(histogram.buckets[relock_meter_bucket(1000)], 1);
}

static void results_out_of_range_are_not_counted(void **state)
{
    uint64_t counts[RELOCK_RESULTS] = {0};
    uint64_t n = 0;

    (void)state;

    relock_meter_end(counts, RELOCK_OK);
    relock_meter_end(counts, RELOCK_E_UNSUPPORTED);
    relock_meter_end(counts, 1);
    relock_meter_end(counts, -RELOCK_RESULTS);
    for (int i = 0; i < RELOCK_RESULTS; i++)
        n += counts[i];
    assert_int_equal(n, 2);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[-RELOCK_E_UNSUPPORTED], 1);
}

static void the_most_contended_names_are_found_among_many(void **state)
{
    struct relock_meter meter = {0};
    struct relock_contended top[RELOCK_CONTENDED_NAMES];
    char name[32];

    (void)state;

    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "once:%d", i);
        relock_meter_contend(&meter, name);
        relock_meter_contend(&meter, "often");
        if (i % 2 == 0)
            relock_meter_contend(&meter, "half as often");
    }
    relock_meter_top(&meter, top);
    assert_string_equal(top[0].name, "often");
    assert_string_equal(top[1].name, "half as often");
    assert_int_equal(top[0].n, 1000); /* it always had a counter */
    assert_int_equal(top[1].n, 500);
    for (int i = 1; i < RELOCK_CONTENDED_NAMES; i++)
        assert_true(top[i].n <= top[i - 1].n);
}

static void a_long_name_is_cut(void **state)
{
    struct relock_meter meter = {0};
    struct relock_contended top[RELOCK_CONTENDED_NAMES];
    char name[200];

    (void)state;

    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    relock_meter_contend(&meter, name);
    relock_meter_contend(&meter, name);
    relock_meter_top(&meter, top);
    assert_int_equal(top[0].n, 2);
    assert_int_equal(strlen(top[0].name), sizeof(top[0].name) - 1);
    assert_int_equal(top[1].n, 0);
    assert_string_equal(top[1].name, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_is_in_the_bucket_that_begins_before_it),
        cmocka_unit_test(a_histogram_has_the_number_and_the_sum),
        cmocka_unit_test(results_out_of_range_are_not_counted),
        cmocka_unit_test(the_most_contended_names_are_found_among_many),
        cmocka_unit_test(a_long_name_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
