/* The checker of the soak finds each impossible history, and no other. */
#include "held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* The number of violations found among these holds, which end at the first without a name. */
static size_t found_among(const struct held *story)
{
    struct helds helds = {0};
    FILE *out = fopen("/dev/null", "w");
    size_t n;

    assert_non_null(out);
    for (; story->who[0]; story++)
        held_add(&helds, story);
    n = held_check(&helds, out);
    fclose(out);
    held_free(&helds);
    return n;
}

#define FOUND(...) found_among((const struct held[]){__VA_ARGS__, {.who = ""}})

static void successive_holds_are_clean(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "reentrant", "x", 10, 20, 0}, {"b", "reentrant", "x", 20, 30, 0},
                           {"a", "reentrant", "x", 31, 32, 0}),
                     0);
}

static void two_holds_at_once_are_found(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "reentrant", "x", 10, 20, 0}, {"b", "reentrant", "x", 19, 30, 0}),
                     1);
    assert_int_equal(FOUND({"b", "fair", "x", 12, 13, 0}, {"a", "fair", "x", 10, 20, 0}), 1);
}

static void a_long_hold_is_compared_with_all_that_began_in_it(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "spin", "x", 10, 100, 0}, {"b", "spin", "x", 20, 30, 0},
                           {"c", "spin", "x", 40, 50, 0}),
                     2);
}

static void two_locks_are_independent(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "reentrant", "x", 10, 20, 0}, {"b", "reentrant", "y", 10, 20, 0}),
                     0);
}

static void readers_may_be_together(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "read", "x", 10, 20, 0}, {"b", "read", "x", 12, 30, 0},
                           {"c", "write", "x", 30, 40, 0}),
                     0);
}

static void a_writer_beside_a_reader_is_found(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "read", "x", 10, 50, 0}, {"b", "read", "x", 12, 20, 0},
                           {"c", "write", "x", 30, 40, 0}),
                     1);
    assert_int_equal(FOUND({"a", "write", "x", 10, 20, 0}, {"b", "write", "x", 12, 30, 0}), 1);
}

static void a_writer_may_read(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "write", "x", 10, 20, 0}, {"a", "read", "x", 12, 30, 0},
                           {"b", "read", "x", 21, 25, 0}),
                     0);
}

static void a_token_that_does_not_grow_is_found(void **state)
{
    (void)state;
    assert_int_equal(FOUND({"a", "fenced", "x", 10, 20, 4}, {"b", "fenced", "x", 30, 40, 5}), 0);
    assert_int_equal(FOUND({"a", "fenced", "x", 10, 20, 4}, {"b", "fenced", "x", 30, 40, 4}), 1);
    assert_int_equal(FOUND({"b", "fenced", "x", 30, 40, 3}, {"a", "fenced", "x", 10, 20, 4}), 1);
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
