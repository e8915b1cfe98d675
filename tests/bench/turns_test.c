/* Shares and waits, from the order of acquisitions. */
#include "turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define N 4
#define CLOSE_TO 0.000001

/* Each digit is a process that acquires the lock; a letter is a process that asks: "a" is 0. Redis
 * grants it, unless the process is in brackets: then another of its threads has handed it off. */
static void acquire(struct turns *turns, const char *order)
{
    static uint64_t n_granted;
    bool by_redis = true;

    for (; *order; order++) {
        if (*order == '[' || *order == ']')
            by_redis = *order == ']';
        else if (*order >= 'a')
            turns_ask(turns, (unsigned)(*order - 'a'));
        else
            (void)turns_take(turns, (unsigned)(*order - '0'),
                             by_redis ? ++n_granted : turns->processes[*order - '0'].n_granted);
    }
}

static struct turns_summary summary_of(const char *before, const char *measured)
{
    static struct turns turns;

    turns_init(&turns, N);
    acquire(&turns, before);
    turns_begin(&turns);
    acquire(&turns, measured);
    turns_end(&turns);
    acquire(&turns, "000000000000");
    return turns_summary(&turns);
}

static void processes_in_turns_have_equal_shares_and_wait_for_the_others_once(void **state)
{
    struct turns_summary summary = summary_of("", "012301230123");

    (void)state;
    assert_int_equal(summary.n, 12);
    assert_float_equal(summary.rounds, 3, CLOSE_TO);
    assert_float_equal(summary.least, 1, CLOSE_TO);
    assert_float_equal(summary.longest, 0.75, CLOSE_TO);
    assert_float_equal(summary.longest_turns, 0.75, CLOSE_TO);
}

static void a_process_that_acquires_nothing_has_no_share_and_waits_until_the_end(void **state)
{
    struct turns_summary summary = summary_of("", "01201201");

    (void)state;
    assert_float_equal(summary.least, 0, CLOSE_TO);
    assert_float_equal(summary.longest, 2, CLOSE_TO);
}

static void a_wait_between_two_acquisitions_counts_when_it_is_the_longest(void **state)
{
    struct turns_summary summary = summary_of("", "0123222222222222301");

    (void)state;
    assert_float_equal(summary.longest, 16.0 / N, CLOSE_TO);
    assert_float_equal(summary.least, 2.0 * N / 19, CLOSE_TO);
}

static void hand_offs_are_acquisitions_of_one_turn(void **state)
{
    struct turns_summary summary = summary_of("", "0[000]1[111]2[222]3[333]0[000]");

    (void)state;
    assert_int_equal(summary.n, 20);
    assert_float_equal(summary.rounds, 1.25, CLOSE_TO);
    assert_float_equal(summary.longest, 3, CLOSE_TO);
    assert_float_equal(summary.longest_turns, 0.75, CLOSE_TO);
}

static void a_process_that_asks_redis_again_begins_another_turn(void **state)
{
    (void)state;
    assert_float_equal(summary_of("", "1230000000012").longest_turns, 10.0 / N, CLOSE_TO);
}

static void a_process_waits_from_the_moment_when_it_asks(void **state)
{
    struct turns_summary summary = summary_of("", "a0b1c2d3b1b1b1ab1b1b10c2d3");

    (void)state;
    assert_float_equal(summary.longest_turns, 9.0 / N, CLOSE_TO);
    assert_float_equal(summary.longest_wait, 3.0 / N, CLOSE_TO);
}

static void a_process_waits_as_long_as_any_of_its_threads(void **state)
{
    struct turns_summary summary = summary_of("", "aa0b1b1b1b1ab1b10b1a0");

    (void)state;
    assert_float_equal(summary.longest_wait, 6.0 / N, CLOSE_TO);
}

static void a_wait_that_lasts_until_the_end_counts(void **state)
{
    (void)state;
    assert_float_equal(summary_of("", "a0b1ab1b1b1").longest_wait, 3.0 / N, CLOSE_TO);
    assert_float_equal(summary_of("", "a0b1b1b1b1").longest_wait, 0, CLOSE_TO);
}

static void what_was_before_the_measurement_counts_in_nothing(void **state)
{
    struct turns_summary summary = summary_of("300000000000000000000", "0123");

    (void)state;
    assert_int_equal(summary.n, 4);
    assert_float_equal(summary.rounds, 1, CLOSE_TO);
    assert_float_equal(summary.least, 1, CLOSE_TO);
    assert_float_equal(summary.longest, 0.75, CLOSE_TO);
    assert_float_equal(summary.longest_turns, 0.75, CLOSE_TO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_in_turns_have_equal_shares_and_wait_for_the_others_once),
        cmocka_unit_test(a_process_that_acquires_nothing_has_no_share_and_waits_until_the_end),
        cmocka_unit_test(a_wait_between_two_acquisitions_counts_when_it_is_the_longest),
        cmocka_unit_test(hand_offs_are_acquisitions_of_one_turn),
        cmocka_unit_test(a_process_that_asks_redis_again_begins_another_turn),
        cmocka_unit_test(a_process_waits_from_the_moment_when_it_asks),
        cmocka_unit_test(a_process_waits_as_long_as_any_of_its_threads),
        cmocka_unit_test(a_wait_that_lasts_until_the_end_counts),
        cmocka_unit_test(what_was_before_the_measurement_counts_in_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
