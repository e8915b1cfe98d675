/* Client tracking: what it costs, and a program without it. */
#include "support/armed.h"
#include "support/kinds.h"

#define CHANNEL "__redis__:invalidate"

static void a_short_hold_costs_no_command(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, armed_client(f, 0), "orders");
    long long scripts, armed = armed_count(f->probe), turned_on;

    assert_true(wait_for_login(f->probe));
    turned_on = probe_calls(f->probe, "client|tracking");
    scripts = probe_script_calls(f->probe);
    for (int i = 0; i < 20; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    let_pass(300);
    assert_int_equal(probe_script_calls(f->probe), scripts + 40);
    assert_int_equal(armed_count(f->probe), armed);
    assert_int_equal(probe_calls(f->probe, "client|tracking"), turned_on);
    assert_int_equal(probe_subscribers(f->probe, CHANNEL), 0);
}

static void a_long_hold_costs_one_check_and_its_release_none(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, armed_client(f, 0), "orders");
    long long scripts = probe_script_calls(f->probe), armed = armed_count(f->probe);

    armed_hold(f, lock, NULL);
    let_pass(300);
    assert_int_equal(probe_script_calls(f->probe), scripts + 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    let_pass(300);
    assert_int_equal(probe_script_calls(f->probe), scripts + 3);
    assert_int_equal(armed_count(f->probe), armed + 1);
}

/* Each of the two writes is reported, and costs one check at most. */
static void a_level_costs_one_check_at_most(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, armed_client(f, 0), "orders");
    long long before;

    armed_hold(f, lock, NULL);
    before = armed_count(f->probe);
    assert_result(relock_lock(lock), RELOCK_OK);
    let_pass(200);
    assert_in_range(armed_count(f->probe) - before, 0, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    let_pass(200);
    assert_in_range(armed_count(f->probe) - before, 0, 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Reports that come all the time are answered less and less often. */
static void a_lock_that_changes_all_the_time_is_checked_seldom(void **state)
{
    enum { N = 200 };
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, armed_client(f, 0), "orders");
    long long before;

    armed_hold(f, lock, NULL);
    before = armed_count(f->probe);
    for (int i = 0; i < N; i++) {
        probe_int(f->probe, "PEXPIRE orders %d", (int)NEVER_MS - i);
        let_pass(2);
    }
    print_message("%d changes: %d checks\n", N, (int)(armed_count(f->probe) - before));
    assert_in_range(armed_count(f->probe) - before, 1, N / 5);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_program_can_do_without(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, armed_client(f, RELOCK_NO_TRACKING), "orders");
    long long turned_on = probe_calls(f->probe, "client|tracking");

    assert_result(relock_lock(lock), RELOCK_OK);
    let_pass(400);
    assert_int_equal(probe_calls(f->probe, "client|tracking"), turned_on);
    assert_int_equal(probe_subscribers(f->probe, CHANNEL), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_short_hold_costs_no_command),
        KINDS_TEST(a_long_hold_costs_one_check_and_its_release_none),
        KINDS_TEST_OF(a_long_hold_costs_one_check_and_its_release_none, read),
        KINDS_TEST(a_level_costs_one_check_at_most),
        KINDS_TEST(a_lock_that_changes_all_the_time_is_checked_seldom),
        KINDS_TEST(a_program_can_do_without),
    };

    return cmocka_run_group_tests(tests, armed_start, fixture_stop);
}
