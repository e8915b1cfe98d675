/* Pauses between retries. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define MAX_MS 128
#define N_WAITS 2000 /* waiting calls */
#define N_TRIES 20   /* pauses of each call */

/* Draws pauses until each of `min_ms` to `most_ms` has come. No other may come. The odds that
 * one is missing are 1 to 10^41. */
static void check_range(uint64_t previous_ms, uint64_t min_ms, uint64_t max_ms, uint64_t most_ms)
{
    bool is_seen[MAX_MS + 1] = {false};

    for (int i = 0; i < 100 * MAX_MS; i++) {
        uint64_t ms = relock_backoff_ms(previous_ms, min_ms, max_ms);

        assert_in_range(ms, min_ms, most_ms);
        is_seen[ms] = true;
    }
    for (uint64_t ms = min_ms; ms <= most_ms; ms++)
        assert_true(is_seen[ms]);
}

static void a_pause_is_at_most_three_times_the_previous_one(void **state)
{
    (void)state;
    for (uint64_t previous_ms = 1; previous_ms <= MAX_MS; previous_ms++)
        check_range(previous_ms, 1, MAX_MS, previous_ms * 3 < MAX_MS ? previous_ms * 3 : MAX_MS);
}

static void the_first_pause_follows_the_shortest_one(void **state)
{
    (void)state;
    check_range(0, 10, MAX_MS, 30);
    check_range(0, 1, MAX_MS, 3);
}

static void a_pause_keeps_within_its_bounds(void **state)
{
    (void)state;
    check_range(2, 10, MAX_MS, 30);
    check_range(1000000, 20, 50, 50);
    check_range(0, 20, 20, 20);
}

/* Each pause is random, up to three times the last and at most 128: the average is near 35. */
static void pauses_grow_on_average_and_settle(void **state)
{
    uint64_t sum_ms[N_TRIES] = {0};

    (void)state;
    for (int wait = 0; wait < N_WAITS; wait++) {
        uint64_t ms = 2;

        for (int try = 0; try < N_TRIES; try++) {
            ms = relock_backoff_ms(ms, 1, MAX_MS);
            sum_ms[try] += ms;
        }
    }
    assert_true(sum_ms[0] > N_WAITS * 2);
    for (int try = 1; try < 5; try++)
        assert_true(sum_ms[try] > sum_ms[try - 1]);
    assert_in_range(sum_ms[N_TRIES - 1] / N_WAITS, 28, 45);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_is_at_most_three_times_the_previous_one),
        cmocka_unit_test(the_first_pause_follows_the_shortest_one),
        cmocka_unit_test(a_pause_keeps_within_its_bounds),
        cmocka_unit_test(pauses_grow_on_average_and_settle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
