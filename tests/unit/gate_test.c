/* Waking one thread, and never losing an opening. */
#include "base/gate.h"

#include "base/clock.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ROUNDS 1000

static uint64_t soon(void)
{
    return relock_clock_after(relock_clock_now_ms(), slow_ms(SOON_MS));
}

static int make_gate(void **state)
{
    static struct relock_gate gate;

    relock_gate_init(&gate);
    *state = &gate;
    return 0;
}

static int drop_gate(void **state)
{
    relock_gate_deinit(*state);
    return 0;
}

static void a_new_gate_is_closed(void **state)
{
    struct relock_gate *gate = *state;

    assert_false(relock_gate_wait(gate, 0));
    assert_false(relock_gate_wait(gate, relock_clock_now_ms()));
}

static void a_gate_opened_early_lets_one_wait_through(void **state)
{
    struct relock_gate *gate = *state;

    relock_gate_open(gate);
    assert_true(relock_gate_wait(gate, RELOCK_NEVER));
    assert_false(relock_gate_wait(gate, 0));
}

static void several_openings_count_as_one(void **state)
{
    struct relock_gate *gate = *state;

    relock_gate_open(gate);
    relock_gate_open(gate);
    relock_gate_open(gate);
    assert_true(relock_gate_wait(gate, soon()));
    assert_false(relock_gate_wait(gate, 0));
}

static void an_opening_counts_however_late_it_is_looked_at(void **state)
{
    struct relock_gate *gate = *state;

    relock_gate_open(gate);
    assert_true(relock_gate_wait(gate, 0));
}

static void a_wait_ends_at_its_deadline_and_not_before(void **state)
{
    struct relock_gate *gate = *state;

    for (uint64_t ms = 1; ms <= 20; ms += 19) {
        uint64_t deadline_ms = relock_clock_after(relock_clock_now_ms(), ms);

        assert_false(relock_gate_wait(gate, deadline_ms));
        assert_true(relock_clock_now_ms() >= deadline_ms);
    }
}

static void a_gate_can_be_opened_after_a_wait_in_vain(void **state)
{
    struct relock_gate *gate = *state;

    assert_false(relock_gate_wait(gate, relock_clock_now_ms() + 1));
    relock_gate_open(gate);
    assert_true(relock_gate_wait(gate, soon()));
}

/* Two threads, of which each opens the other's gate and waits at its own. */
struct pair {
    struct relock_gate there, back;
    int n_there; /* turns had, by the other thread */
};

static void *have_turns(void *arg)
{
    struct pair *pair = arg;

    while (pair->n_there < ROUNDS && relock_gate_wait(&pair->there, RELOCK_NEVER)) {
        pair->n_there++;
        relock_gate_open(&pair->back);
    }
    return NULL;
}

static void a_thread_is_woken_by_another(void **state)
{
    static struct pair pair;
    pthread_t thread;
    int n_back = 0;

    (void)state;
    relock_gate_init(&pair.there);
    relock_gate_init(&pair.back);
    assert_int_equal(pthread_create(&thread, NULL, have_turns, &pair), 0);

    /* Often enough that either comes first at times. */
    while (n_back < ROUNDS) {
        relock_gate_open(&pair.there);
        if (!relock_gate_wait(&pair.back, soon()))
            break;
        n_back++;
    }
    assert_int_equal(n_back, ROUNDS);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pair.n_there, ROUNDS);
    relock_gate_deinit(&pair.there);
    relock_gate_deinit(&pair.back);
}

#define GATE_TEST(function) cmocka_unit_test_setup_teardown(function, make_gate, drop_gate)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GATE_TEST(a_new_gate_is_closed),
        GATE_TEST(a_gate_opened_early_lets_one_wait_through),
        GATE_TEST(several_openings_count_as_one),
        GATE_TEST(an_opening_counts_however_late_it_is_looked_at),
        GATE_TEST(a_wait_ends_at_its_deadline_and_not_before),
        GATE_TEST(a_gate_can_be_opened_after_a_wait_in_vain),
        cmocka_unit_test(a_thread_is_woken_by_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
