/* The checker of holds finds each impossible history, and no other. */
#include "support/held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* From 100 to 200. */
static const struct held_failover failover = {100, 200};

/* The pairs found among these holds, which end at the first without a name. */
static struct held_pairs judge(const struct held *story, size_t n_failovers)
{
    struct helds helds = {0};
    FILE *out = fopen("/dev/null", "w");
    struct held_pairs pairs;

    assert_non_null(out);
    for (; story->who[0]; story++)
        held_add(&helds, story);
    pairs = held_check(&helds, &failover, n_failovers, out);
    fclose(out);
    held_free(&helds);
    return pairs;
}

static size_t found_among(const struct held *story)
{
    struct held_pairs pairs = judge(story, 0);

    assert_int_equal(pairs.excused, 0);
    return pairs.impossible;
}

/* With a failover. */
static void expect(const struct held *story, size_t impossible, size_t excused)
{
    struct held_pairs pairs = judge(story, 1);

    assert_int_equal(pairs.impossible, impossible);
    assert_int_equal(pairs.excused, excused);
}

#define STORY(...) ((const struct held[]){__VA_ARGS__, {.who = ""}})
#define FOUND(...) found_among(STORY(__VA_ARGS__))

static void successive_holds_are_clean(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "reentrant", "x", 10, 20, 0, 0},
                           {"b", "reentrant", "x", 20, 30, 0, 0},
                           {"a", "reentrant", "x", 31, 32, 0, 0}),
                     0);
}

static void two_holds_at_once_are_found(void **state)
{
    (void)state;
    assert_int_equal(
        FOUND({"a", "reentrant", "x", 10, 20, 0, 0}, {"b", "reentrant", "x", 19, 30, 0, 0}), 1);
    assert_int_equal(FOUND({"b", "fair", "x", 12, 13, 0, 0}, {"a", "fair", "x", 10, 20, 0, 0}), 1);
}

static void a_long_hold_is_compared_with_all_that_began_in_it(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "spin", "x", 10, 100, 0, 0}, {"b", "spin", "x", 20, 30, 0, 0},
                           {"c", "spin", "x", 40, 50, 0, 0}),
                     2);
}

static void two_locks_are_independent(void **state)
{
    (void)state;
    assert_int_equal(
        FOUND({"a", "reentrant", "x", 10, 20, 0, 0}, {"b", "reentrant", "y", 10, 20, 0, 0}), 0);
}

static void readers_may_be_together(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "read", "x", 10, 20, 0, 0}, {"b", "read", "x", 12, 30, 0, 0},
                           {"c", "write", "x", 30, 40, 0, 0}),
                     0);
}

static void a_writer_beside_a_reader_is_found(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "read", "x", 10, 50, 0, 0}, {"b", "read", "x", 12, 20, 0, 0},
                           {"c", "write", "x", 30, 40, 0, 0}),
                     1);
    assert_int_equal(FOUND({"a", "write", "x", 10, 20, 0, 0}, {"b", "write", "x", 12, 30, 0, 0}),
                     1);
}

static void a_writer_may_read(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "write", "x", 10, 20, 0, 0}, {"a", "read", "x", 12, 30, 0, 0},
                           {"b", "read", "x", 21, 25, 0, 0}),
                     0);
}

static void a_token_that_does_not_grow_is_found(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "fenced", "x", 10, 20, 4, 0}, {"b", "fenced", "x", 30, 40, 5, 0}),
                     0);
    assert_int_equal(FOUND({"a", "fenced", "x", 10, 20, 4, 0}, {"b", "fenced", "x", 30, 40, 4, 0}),
                     1);
    assert_int_equal(FOUND({"b", "fenced", "x", 30, 40, 3, 0}, {"a", "fenced", "x", 10, 20, 4, 0}),
                     1);
}

static void a_failover_excuses_two_holders_if_one_was_not_acknowledged(void **state)
{
    (void)state;
    expect(STORY({"a", "spin", "x", 50, 150, 0, 0}, {"b", "spin", "x", 120, 130, 0, 1}), 0, 1);
    expect(STORY({"a", "spin", "x", 50, 150, 0, 1}, {"b", "spin", "x", 120, 130, 0, 0}), 0, 1);
    expect(STORY({"a", "spin", "x", 50, 150, 0, 1}, {"b", "spin", "x", 120, 130, 0, 1}), 1, 0);
}

static void a_failover_excuses_nothing_before_and_after_it(void **state)
{
    (void)state;
    expect(STORY({"a", "spin", "x", 50, 99, 0, 0}, {"b", "spin", "x", 60, 300, 0, 0}), 1, 0);
    expect(STORY({"a", "spin", "x", 50, 300, 0, 0}, {"b", "spin", "x", 201, 300, 0, 0}), 1, 0);
    expect(STORY({"a", "spin", "x", 50, 300, 0, 0}, {"b", "spin", "x", 60, 300, 0, 0}), 0, 1);
}

static void a_failover_excuses_a_token_that_was_not_acknowledged(void **state)
{
    (void)state;
    expect(STORY({"a", "fenced", "x", 50, 60, 4, 0}, {"b", "fenced", "x", 150, 160, 4, 1}), 0, 1);
    expect(STORY({"a", "fenced", "x", 50, 60, 4, 1}, {"b", "fenced", "x", 150, 160, 4, 1}), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(successive_holds_are_clean),
        cmocka_unit_test(two_holds_at_once_are_found),
        cmocka_unit_test(a_long_hold_is_compared_with_all_that_began_in_it),
        cmocka_unit_test(two_locks_are_independent),
        cmocka_unit_test(readers_may_be_together),
        cmocka_unit_test(a_writer_beside_a_reader_is_found),
        cmocka_unit_test(a_writer_may_read),
        cmocka_unit_test(a_token_that_does_not_grow_is_found),
        cmocka_unit_test(a_failover_excuses_two_holders_if_one_was_not_acknowledged),
        cmocka_unit_test(a_failover_excuses_nothing_before_and_after_it),
        cmocka_unit_test(a_failover_excuses_a_token_that_was_not_acknowledged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
