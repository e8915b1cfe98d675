/* Ages, compared with an array that is searched from end to end. */
#include "base/ages.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define N_THINGS 3000
#define N_STEPS 100000
#define HALF_A_YEAR_US (UINT64_C(182) * 86400 * 1000000)

struct model {
    struct relock_ages ages;
    uint64_t since_us[N_THINGS];
    size_t n;
};

static struct model model;

static void begin_at(uint64_t since_us)
{
    assert_true(model.n < N_THINGS);
    model.since_us[model.n++] = since_us;
    relock_ages_add(&model.ages, since_us);
}

static void end_nth(size_t nth)
{
    uint64_t since_us = model.since_us[nth];

    model.since_us[nth] = model.since_us[--model.n];
    relock_ages_remove(&model.ages, since_us);
}

static size_t oldest(void)
{
    size_t first = 0;

    for (size_t i = 1; i < model.n; i++)
        if (model.since_us[i] < model.since_us[first])
            first = i;
    return first;
}

/* As the head of ages.h says. Returns whether the age is exact. */
static bool check(uint64_t now_us)
{
    uint64_t since_us = relock_ages_since_us(&model.ages);
    uint64_t age_us, true_age_us;

    assert_true(model.ages.n <= RELOCK_AGES_SPANS);
    if (model.n == 0) {
        assert_true(since_us == RELOCK_NEVER);
        return true;
    }
    age_us = now_us - since_us;
    true_age_us = now_us - model.since_us[oldest()];
    assert_true(age_us >= true_age_us);
    assert_true(age_us <= true_age_us + true_age_us / 4 + 1000);
    return age_us == true_age_us;
}

static void reset(void)
{
    memset(&model, 0, sizeof(model));
}

static void without_things_there_is_no_age(void **state)
{
    (void)state;
    reset();
    assert_true(check(0));
    begin_at(5);
    end_nth(0);
    assert_true(check(10));
}

static void few_things_have_exact_ages(void **state)
{
    (void)state;
    reset();
    for (uint64_t i = 0; i < RELOCK_AGES_SPANS; i++)
        begin_at(i * 1000);
    while (model.n > 0) {
        assert_true(check(1000000));
        end_nth(oldest());
    }
    assert_true(check(1000000));
}

/* A thread reads the clock, and another one that reads it later is first. */
static void what_began_before_the_newest_is_not_taken_for_an_older_one(void **state)
{
    (void)state;
    reset();
    begin_at(0);
    begin_at(3600000000);
    begin_at(3599000000);
    end_nth(0);
    assert_true(check(3600000000));
    end_nth(oldest());
    assert_true(check(3600000000));
    begin_at(3598000000);
    assert_true(check(3600000000));
}

/* Many more than there are spans, and the ages of each order of magnitude. */
static void ages_of_half_a_year_are_known(void **state)
{
    uint64_t age_us = HALF_A_YEAR_US;

    (void)state;
    reset();
    for (; age_us > 1000; age_us -= age_us / 64 + 1) {
        begin_at(HALF_A_YEAR_US - age_us);
        check(HALF_A_YEAR_US - age_us);
    }
    assert_true(model.n > 4 * RELOCK_AGES_SPANS);
    while (model.n > 0) {
        check(HALF_A_YEAR_US);
        end_nth(oldest());
    }
    check(HALF_A_YEAR_US);
}

/* Older ones stay longer. Now and then nothing happens for long, or all of a kind end. */
static void any_order_of_begins_and_ends_has_ages_within_the_bounds(void **state)
{
    const char *given = getenv("RELOCK_TEST_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    uint64_t now_us = 1000000;
    size_t n_exact = 0;

    (void)state;
    print_message("seed %u\n", seed);
    srand(seed);
    reset();
    for (int i = 0; i < N_STEPS; i++) {
        now_us += (uint64_t)(rand() % (rand() % 1000 == 0 ? 10000000 : 2000));
        if (model.n < N_THINGS && (model.n == 0 || rand() % 2 == 0))
            begin_at(now_us - (uint64_t)(rand() % 8 == 0 ? rand() % 20000 : 0));
        else
            end_nth(rand() % 8 == 0 ? oldest() : (size_t)rand() % model.n);
        while (rand() % 5000 == 0 && model.n > 0)
            for (int n = rand() % 200; n > 0 && model.n > 0; n--)
                end_nth(oldest());
        n_exact += check(now_us);
    }
    assert_true(n_exact > 0 && n_exact < N_STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_things_there_is_no_age),
        cmocka_unit_test(few_things_have_exact_ages),
        cmocka_unit_test(what_began_before_the_newest_is_not_taken_for_an_older_one),
        cmocka_unit_test(ages_of_half_a_year_are_known),
        cmocka_unit_test(any_order_of_begins_and_ends_has_ages_within_the_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
