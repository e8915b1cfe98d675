/* How long who spins waits between two tries. */
#include "lock/spinlock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define MOST_MS 128
#define N_WAITS 2000 /* calls that wait */
#define N_TRIES 20   /* of each */

static void a_pause_is_1_to_128_ms_and_at_most_three_times_the_last(void **state)
{
    (void)state;

    for (uint64_t last_ms = 1; last_ms <= MOST_MS; last_ms++) {
        uint64_t most_ms = last_ms * 3 < MOST_MS ? last_ms * 3 : MOST_MS;
        bool is_seen[MOST_MS + 1] = {false};

        for (int i = 0; i < 100 * MOST_MS; i++) {
            uint64_t ms = relock_spinlock_pause_ms(last_ms);

            assert_in_range(ms, 1, most_ms);
            is_seen[ms] = true;
        }
        /* Each of these lengths: the odds that one is missed are 1 to 10^41. */
        for (uint64_t ms = 1; ms <= most_ms; ms++)
            assert_true(is_seen[ms]);
    }
}

/* Each is at random up to three times the last, 128 at the most: the average settles near 35. */
static void pauses_grow_on_the_average_and_settle(void **state)
{
    uint64_t sum_ms[N_TRIES] = {0};

    (void)state;

    for (int wait = 0; wait < N_WAITS; wait++) {
        uint64_t ms = RELOCK_SPINLOCK_FIRST_MS;

        for (int try = 0; try < N_TRIES; try++) {
            ms = relock_spinlock_pause_ms(ms);
            sum_ms[try] += ms;
        }
    }
    assert_true(sum_ms[0] > N_WAITS * RELOCK_SPINLOCK_FIRST_MS);
    for (int try = 1; try < 5; try++)
        assert_true(sum_ms[try] > sum_ms[try - 1]);
    assert_in_range(sum_ms[N_TRIES - 1] / N_WAITS, 28, 45);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_is_1_to_128_ms_and_at_most_three_times_the_last),
        cmocka_unit_test(pauses_grow_on_the_average_and_settle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
