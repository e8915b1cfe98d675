/*
 * Old commands that reach the server late, after their caller has timed out and gone on. They
 * change nothing newer than they are.
 *
 * Its argument is that of faults_take_rights().
 */
#include "kind_faults.h"

static struct relock_client *client_with_lease(struct faults *t, uint64_t lease_ms)
{
    return faults_worker_client(t, &(struct relock_options){.watchdog_timeout_ms = lease_ms,
                                                            .recheck_ms = LONG_MS,
                                                            .command_timeout_ms = short_ms()});
}

static struct relock_lock *lock_of(struct faults *t)
{
    return kind_lock(t->f, client_with_lease(t, LONG_MS), "orders");
}

static void a_late_acquire_is_released(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with_lease(t, LONG_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "lock 1 orders");
    struct relock_how how = {.lease_ms = slow_ms(1500)};
    long long last;

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_E_CONN);
    assert_true(kind_counts(t, "unlock 1 orders * 0", 1));
    assert_int_equal(stats_of(client).holds, 0);
    faults_run_late(rule);
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
    if (faults_rights() == CAN_KILL)
        assert_int_equal(probe_n_keys(t->f->probe), 0);

    /* Otherwise the lock stays until its lease ends, and nothing extends the lease. */
    for (last = (long long)how.lease_ms; last >= 0;) {
        long long pttl = probe_pttl(t->f->probe, "orders");

        assert_true(pttl <= last);
        last = pttl;
    }
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* After the pause a server may run the commands that it had read. The pause is longer than a
 * call. */
static void an_acquire_that_a_paused_server_runs_late_is_released(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with_lease(t, LONG_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");

    assert_int_equal(probe_int(t->f->probe, "CLIENT PAUSE %d", (int)(2 * short_ms())), 0);
    assert_result(relock_trylock(lock), RELOCK_E_CONN);
    assert_true(kind_counts(t, "unlock 1 orders * 0", 1));
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

static void a_late_acquire_takes_nothing_from_the_next_holder(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "lock 1 orders");

    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_true(kind_counts(t, "unlock 1 orders * 0", 1));
    assert_true(kind_peer_lock(t->f, "orders"));
    faults_late_changes_nothing(t, rule);
    assert_true(kind_peer_unlock(t->f, "orders"));
}

/* The same thread acquires the lock again: that is another hold. */
static void a_late_acquire_is_not_the_next_hold_of_its_owner(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "lock 1 orders");

    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    faults_late_changes_nothing(t, rule);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

/* An older hold is released in the background while the owner holds other locks. */
static void a_late_settling_frees_no_newer_hold(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with_lease(t, LONG_MS);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct relock_lock *other = kind_lock(t->f, client, "invoices");
    struct proxy_rule *settling = kind_next(t, PROXY_HOLD, "unlock 1 orders * 0");
    char before[FAULTS_HOLDERS_MAX], after[FAULTS_HOLDERS_MAX];

    assert_result(relock_lock(other), RELOCK_OK);
    kind_next(t, PROXY_LOSE, "lock 1 orders");
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_true(proxy_met(settling, 1));
    assert_result(relock_lock(lock), RELOCK_OK);
    faults_holders(t, before);
    proxy_let_go(settling);
    assert_int_equal(proxy_fate(settling), PROXY_ANSWERED);
    faults_holders(t, after);
    assert_string_equal(after, before);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(other), RELOCK_OK);
}

static void a_late_nested_acquire_creates_no_hold(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "lock 1 orders * * 2");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_result(relock_unlock(lock), RELOCK_OK);
    faults_run_late(rule);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

/* If it runs, the next command of the hold sets the count again. */
static void a_late_partial_unlock_is_corrected_and_frees_nothing(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "unlock 1 orders * 1");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_E_CONN);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    faults_run_late(rule);
    assert_true(kind_has_levels(t->f, "orders", faults_rights() == CAN_KILL ? 3 : 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(kind_has_levels(t->f, "orders", 2));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

static void a_late_unlock_frees_no_newer_hold(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "unlock 1 orders * 0");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_E_CONN);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
    assert_result(relock_lock(lock), RELOCK_OK);
    faults_late_changes_nothing(t, rule);
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_late_unlock_frees_no_hold_of_another(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "unlock 1 orders * 0");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_E_CONN);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
    assert_true(kind_peer_lock(t->f, "orders"));
    faults_late_changes_nothing(t, rule);
    assert_true(kind_peer_unlock(t->f, "orders"));
}

static void a_late_extension_prolongs_no_newer_hold(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "extend 1 orders");
    struct relock_how how = {.lease_ms = LONG_MS / 2};

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, 3 * (uint64_t)LONG_MS), RELOCK_E_CONN);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    faults_run_late(rule);
    assert_true(probe_pttl(t->f->probe, "orders") <= LONG_MS / 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* A renewal is not killed: it runs, and finds another number. */
static void a_late_renewal_prolongs_no_newer_hold(void **state)
{
    struct faults *t = *state;
    uint64_t lease_ms = outlast_ms(3000);
    struct relock_client *client = client_with_lease(t, lease_ms);
    struct relock_lock *lock = kind_lock(t->f, client, "orders");
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "renew 1 orders");
    struct relock_how how = {.lease_ms = lease_ms / 2};

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_met(rule, 1));
    assert_true(wait_for_renewals(client, 0, 1)); /* over another connection */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    proxy_let_go(rule);
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    assert_true(probe_pttl(t->f->probe, "orders") <= (long long)how.lease_ms);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(losses_count(t->f->losses), 0);
}

/* A forced unlock names the hold that its caller read. */
static void a_late_forced_unlock_frees_no_newer_hold(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD, "force_unlock 1 orders");

    assert_true(kind_peer_lock(t->f, "orders"));
    assert_result(relock_force_unlock(lock), RELOCK_E_CONN);
    assert_true(kind_peer_unlock(t->f, "orders"));
    assert_result(relock_lock(lock), RELOCK_OK);
    proxy_let_go(rule);
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    assert_true(kind_has_levels(t->f, "orders", 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static const struct CMUnitTest of_kinds[] = {
    FAULT_TEST_OF(a_late_acquire_takes_nothing_from_the_next_holder, plain),
    FAULT_TEST_OF(a_late_acquire_is_not_the_next_hold_of_its_owner, plain),
    FAULT_TEST_OF(a_late_settling_frees_no_newer_hold, plain),
    FAULT_TEST_OF_ALL(a_late_nested_acquire_creates_no_hold),
    FAULT_TEST_OF(a_late_partial_unlock_is_corrected_and_frees_nothing, read),
    FAULT_TEST_OF(a_late_unlock_frees_no_newer_hold, plain),
    FAULT_TEST_OF(a_late_unlock_frees_no_hold_of_another, plain),
    FAULT_TEST_OF(a_late_extension_prolongs_no_newer_hold, plain),
    FAULT_TEST_OF(a_late_forced_unlock_frees_no_newer_hold, plain),
};

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_late_acquire_is_released),
        FAULT_TEST(an_acquire_that_a_paused_server_runs_late_is_released),
        FAULT_TEST(a_late_acquire_takes_nothing_from_the_next_holder),
        FAULT_TEST(a_late_acquire_is_not_the_next_hold_of_its_owner),
        FAULT_TEST(a_late_settling_frees_no_newer_hold),
        FAULT_TEST(a_late_nested_acquire_creates_no_hold),
        FAULT_TEST(a_late_partial_unlock_is_corrected_and_frees_nothing),
        FAULT_TEST(a_late_unlock_frees_no_newer_hold),
        FAULT_TEST(a_late_unlock_frees_no_hold_of_another),
        FAULT_TEST(a_late_extension_prolongs_no_newer_hold),
        FAULT_TEST(a_late_renewal_prolongs_no_newer_hold),
        FAULT_TEST(a_late_forced_unlock_frees_no_newer_hold),
    };

    faults_take_rights(argc, argv);
    return kind_faults_wanted(argc, argv) ? FAULT_TESTS_RUN(of_kinds) : FAULT_TESTS_RUN(tests);
}
