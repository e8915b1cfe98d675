/* Cases that fail, each for its reason: failures_test.py runs one of them at a time. */
#include "support/late.h"
#include "support/wait.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static bool at_once(void *arg)
{
    (void)arg;
    return true;
}

static void late_wait(void **state)
{
    (void)state;
    assert_true(wait_until(never, NULL, 1));
}

static void late_duration(void **state)
{
    (void)state;
    assert_no_later(11, 10);
}

static void wrong_value(void **state)
{
    (void)state;
    assert_int_equal(1, 2);
}

static void wrong_value_after_a_late_wait(void **state)
{
    (void)state;
    assert_false(wait_until(never, NULL, 1));
    assert_int_equal(1, 2);
}

static void wrong_answer_after_a_wait_that_was_to_be_late(void **state)
{
    (void)state;
    assert_false(wait_until(never, NULL, 1));
    assert_true(never(NULL));
}

static void wrong_answer_after_a_wait_in_time(void **state)
{
    (void)state;
    (void)wait_until(never, NULL, 1);
    (void)wait_until(at_once, NULL, 1);
    assert_true(never(NULL));
}

static void a_wait_that_should_have_been_in_vain(void **state)
{
    (void)state;
    assert_false(wait_until(at_once, NULL, 1));
}

static void leak(void **state)
{
    bool is_gone = wait_until(never, NULL, 1);

    (void)state;
    late_is_leak();
    assert_true(is_gone);
}

static void crash(void **state)
{
    (void)state;
    (void)wait_until(never, NULL, 1);
    raise(SIGSEGV);
}

static void abort_(void **state)
{
    (void)state;
    (void)wait_until(never, NULL, 1);
    raise(SIGABRT);
}

static int leave_something(void **state)
{
    (void)state;
    assert_int_equal(3, 4);
    return 0;
}

static const struct CMUnitTest all[] = {
    cmocka_unit_test(late_wait),
    cmocka_unit_test(late_duration),
    cmocka_unit_test(wrong_value),
    cmocka_unit_test(wrong_value_after_a_late_wait),
    cmocka_unit_test(wrong_answer_after_a_wait_that_was_to_be_late),
    cmocka_unit_test(wrong_answer_after_a_wait_in_time),
    cmocka_unit_test(a_wait_that_should_have_been_in_vain),
    cmocka_unit_test(leak),
    cmocka_unit_test(crash),
    {"abort", abort_, NULL, NULL, NULL},
    {"late_wait_that_leaves_something", late_wait, NULL, leave_something, NULL},
};

int main(int argc, char **argv)
{
    struct CMUnitTest tests[sizeof(all) / sizeof(all[0])];
    size_t n = 0;

    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
            if (strcmp(argv[i], all[k].name) == 0)
                tests[n++] = all[k];
    if (n != (size_t)argc - 1) {
        fprintf(stderr, "no such case\n");
        return 99;
    }
    return _cmocka_run_group_tests("cases", tests, n, NULL, NULL);
}
