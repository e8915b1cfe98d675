/*
 * Commands that are not answered, so it is unknown whether they ran. The caller's result stays
 * true, and the state in Redis agrees with it, or the next command corrects it.
 *
 * Its argument is that of faults_take_rights().
 */
#include "kind_faults.h"

static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
static const enum proxy_deed losses[] = {PROXY_SWALLOW, PROXY_LOSE};

/* No lease ends in a test: a missing key was released. */
static struct relock_client *client_with(struct faults *t, uint64_t command_timeout_ms)
{
    return faults_worker_client(t,
                                &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                         .recheck_ms = LONG_MS,
                                                         .handoff_ms = LONG_MS,
                                                         .flags = RELOCK_NO_TRACKING,
                                                         .command_timeout_ms = command_timeout_ms});
}

static struct relock_lock *lock_of(struct faults *t)
{
    return kind_lock(t->f, client_with(t, short_ms()), "orders");
}

/* For tests in which each command is answered in the end. */
static struct relock_lock *patient_lock_of(struct faults *t)
{
    return kind_lock(t->f, client_with(t, slow_ms(SOON_MS)), "orders");
}

/* Its connection was killed between the command that met the rule and the next such command. */
static void was_killed_before(struct faults *t, struct proxy_rule *rule, const char *next)
{
    size_t next_place = proxy_next_place(t->proxy, proxy_place(rule), kind_words(next));
    size_t kill_place;

    assert_true(next_place > 0);
    if (faults_rights() == NO_CLIENT) {
        assert_int_equal(proxy_count(t->proxy, "CLIENT KILL"), 0);
        return;
    }
    kill_place = proxy_next_place(t->proxy, proxy_place(rule), "CLIENT KILL ID");
    if (kill_place == 0 || kill_place > next_place)
        proxy_print(t->proxy);
    assert_true(kill_place > 0 && kill_place < next_place);
    if (faults_rights() == NO_KILL)
        assert_true(proxy_next_place(t->proxy, kill_place, "-NOPERM") > 0);
}

/* Checks the levels of the owner, this thread, here and in Redis. */
static void has_levels(struct faults *t, struct relock_lock *lock, unsigned ours, long long redis)
{
    struct relock_grant grant;

    assert_result(relock_check(lock, 0, &grant), ours > 0 ? RELOCK_OK : RELOCK_NOT_OWNER);
    assert_int_equal(grant.hold_count, ours);
    if (redis < 0)
        assert_int_equal(probe_n_keys(t->f->probe), 0);
    else
        assert_true(kind_has_levels(t->f, "orders", redis));
}

/* ---- the first level ----------------------------------------------------------------------- */

static void an_acquire_that_is_cut_off_is_repeated_and_counts_once(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = kind_next(t, cuts[i], "lock 1 orders");

        assert_result(relock_lock(lock), RELOCK_OK);
        was_killed_before(t, rule, "lock 1 orders");
        assert_int_equal(proxy_count(t->proxy, kind_words("lock 1 orders")), 2 * (i + 1));
        has_levels(t, lock, 1, 1);
        assert_true(relock_valid_ms(lock) > 0);
        assert_result(relock_unlock(lock), RELOCK_OK);
        faults_assert_free(t);
    }
}

static void an_acquire_without_an_answer_is_not_held_and_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = kind_next(t, losses[i], "lock 1 orders");

        assert_result(relock_lock(lock), RELOCK_E_CONN);
        assert_int_equal(proxy_fate(rule), i == 0 ? PROXY_ANSWERED : PROXY_ENDED);
        was_killed_before(t, rule, "unlock 1 orders * 0");
        faults_assert_free(t);
        has_levels(t, lock, 0, -1);
        assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    }
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* The first attempt was granted and cut off. It blocks no other owner later. */
static void an_acquire_that_is_refused_after_it_was_cut_off_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);

    assert_true(kind_peer_lock(t->f, "orders"));
    kind_next(t, PROXY_CUT, "lock 1 orders");
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_true(kind_counts(t, "unlock 1 orders * 0", 1));
    assert_true(kind_is_peers(t->f, "orders"));
    assert_true(kind_peer_unlock(t->f, "orders"));
    faults_assert_free(t);
}

/* The reply arrives after the lease that it grants. */
static void a_grant_that_comes_too_late_is_released(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);
    struct relock_how how = {.lease_ms = slow_ms(300)};
    struct proxy_rule *rule = kind_next(t, PROXY_HOLD_REPLY, "lock 1 orders");
    struct actor *owner = actor_start();

    actor_begin_acquire(owner, lock, &how);
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    let_pass(slow_ms(310));
    proxy_let_go(rule);
    assert_result(actor_result(owner), RELOCK_E_CONN);
    assert_true(kind_counts(t, "unlock 1 orders * 0", 1));
    faults_assert_free(t);
}

/* ---- deeper levels ------------------------------------------------------------------------- */

static void a_nested_acquire_that_is_cut_off_counts_once(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = kind_next(t, cuts[i], "lock 1 orders * * 2");

        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_lock(lock), RELOCK_OK);
        was_killed_before(t, rule, "lock 1 orders * * 2");
        has_levels(t, lock, 2, 2);
        assert_result(relock_unlock(lock), RELOCK_OK);
        has_levels(t, lock, 1, 1);
        assert_result(relock_unlock(lock), RELOCK_OK);
        faults_assert_free(t);
    }
}

/* The hold stays as it was, whatever happened in Redis; the next command corrects Redis. */
static void a_nested_acquire_without_an_answer_is_corrected_by_the_next_command(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule;

    assert_result(relock_lock(lock), RELOCK_OK);
    rule = kind_next(t, PROXY_SWALLOW, "lock 1 orders * * 2");
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    has_levels(t, lock, 1, 2);
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_OK);
    was_killed_before(t, rule, "extend 1 orders");
    has_levels(t, lock, 1, 1);

    rule = kind_next(t, PROXY_LOSE, "lock 1 orders * * 2");
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    has_levels(t, lock, 1, 1);
    assert_result(relock_lock(lock), RELOCK_OK);
    was_killed_before(t, rule, "lock 1 orders * * 2");
    has_levels(t, lock, 2, 2);
    assert_result(relock_unlock(lock), RELOCK_OK);

    rule = kind_next(t, PROXY_SWALLOW, "lock 1 orders * * 2");
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    has_levels(t, lock, 1, 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    was_killed_before(t, rule, "unlock 1 orders * 0");
    faults_assert_free(t);
}

static void a_partial_unlock_that_is_cut_off_counts_once(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = kind_next(t, cuts[i], "unlock 1 orders * 1");

        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        was_killed_before(t, rule, "unlock 1 orders * 1");
        has_levels(t, lock, 1, 1);
        assert_result(relock_unlock(lock), RELOCK_OK);
        faults_assert_free(t);
    }
}

static void a_partial_unlock_without_an_answer_is_corrected_by_the_next_command(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule;

    for (int i = 0; i < 3; i++)
        assert_result(relock_lock(lock), RELOCK_OK);
    rule = kind_next(t, PROXY_SWALLOW, "unlock 1 orders * 2");
    assert_result(relock_unlock(lock), RELOCK_E_CONN);
    has_levels(t, lock, 2, 2);
    kind_next(t, PROXY_LOSE, "unlock 1 orders * 1");
    assert_result(relock_unlock(lock), RELOCK_E_CONN);
    was_killed_before(t, rule, "unlock 1 orders * 1");
    has_levels(t, lock, 1, 2);
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_OK);
    has_levels(t, lock, 1, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    faults_assert_free(t);
}

/* Otherwise the next owner would begin with one level too many in Redis. That owner waits
 * meanwhile, and its wait ends if Redis is silent for the limit: so the limit is not that short. */
static void a_hold_with_a_level_without_an_answer_is_not_handed_off(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, 3 * short_ms());
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *next = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(next, lock);
    assert_true(wait_for_waiters(client, 1));
    kind_next(t, PROXY_SWALLOW, "lock 1 orders * * 2");
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    has_levels(t, lock, 1, 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(next), RELOCK_OK);
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 1);
    assert_int_equal(stats_of(client).passed_on, 0);
    assert_result(actor_unlock(next, lock), RELOCK_OK);
    faults_assert_free(t);
}

/* ---- the last level ------------------------------------------------------------------------ */

/* The repeat finds the hold gone if the first attempt ran. */
static void a_last_unlock_that_is_cut_off_is_ok(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = kind_next(t, cuts[i], "unlock 1 orders * 0");

        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        was_killed_before(t, rule, "unlock 1 orders * 0");
        has_levels(t, lock, 0, -1);
        faults_assert_free(t);
    }
    assert_int_equal(log_count(t->f->log, "PUBLISH"), 0);
}

/* The same if another owner has acquired the lock meanwhile. */
static void a_last_unlock_that_is_cut_off_is_ok_though_another_has_the_lock(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);
    struct actor *owner = actor_start();
    struct proxy_rule *repeat;

    assert_result(actor_lock(owner, lock), RELOCK_OK);
    kind_next(t, PROXY_CUT_UNANSWERED, "unlock 1 orders * 0");
    repeat = kind_next(t, PROXY_HOLD, "unlock 1 orders * 0");
    actor_begin(owner, (actor_step_fn *)relock_unlock, lock);
    assert_true(proxy_met(repeat, 1));
    assert_true(kind_peer_lock(t->f, "orders"));
    proxy_let_go(repeat);
    assert_result(actor_result(owner), RELOCK_OK);
    assert_true(kind_is_peers(t->f, "orders"));
    assert_true(kind_peer_unlock(t->f, "orders"));
    assert_int_equal(log_count(t->f->log, "PUBLISH"), 0);
    faults_assert_free(t);
}

static void a_last_unlock_without_an_answer_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = kind_next(t, losses[i], "unlock 1 orders * 0");

        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_E_CONN);
        was_killed_before(t, rule, "unlock 1 orders * 0");
        faults_assert_free(t);
        has_levels(t, lock, 0, -1);
        assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    }
    assert_result(relock_lock(lock), RELOCK_OK);
    has_levels(t, lock, 1, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- keeping ------------------------------------------------------------------------------- */

static void an_extension_that_is_cut_off_counts(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);
    struct proxy_rule *rule = kind_next(t, PROXY_CUT_UNANSWERED, "extend 1 orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, 3 * (uint64_t)LONG_MS), RELOCK_OK);
    was_killed_before(t, rule, "extend 1 orders");
    assert_true(relock_valid_ms(lock) > 2 * (uint64_t)LONG_MS);
    assert_true(probe_pttl(t->f->probe, "orders") >= (long long)relock_valid_ms(lock));
    has_levels(t, lock, 1, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    faults_assert_free(t);
}

static void an_extension_without_an_answer_leaves_the_lease_as_it_was_or_longer(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule;

    assert_result(relock_lock(lock), RELOCK_OK);
    kind_next(t, PROXY_SWALLOW, "extend 1 orders");
    assert_result(relock_extend(lock, 0, 3 * (uint64_t)LONG_MS), RELOCK_E_CONN);
    assert_true(relock_valid_ms(lock) > 0);
    assert_true(relock_valid_ms(lock) < LONG_MS);
    assert_true(probe_pttl(t->f->probe, "orders") > 2 * (long long)LONG_MS);

    rule = kind_next(t, PROXY_LOSE, "extend 1 orders");
    assert_result(relock_extend(lock, 0, 6 * (uint64_t)LONG_MS), RELOCK_E_CONN);
    assert_true(relock_valid_ms(lock) > 0);
    has_levels(t, lock, 1, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    was_killed_before(t, rule, "unlock 1 orders * 0");
    faults_assert_free(t);
}

static const struct CMUnitTest of_kinds[] = {
    FAULT_TEST_OF_ALL(an_acquire_that_is_cut_off_is_repeated_and_counts_once),
    FAULT_TEST_OF_ALL(an_acquire_without_an_answer_is_not_held_and_leaves_nothing),
    FAULT_TEST_OF(an_acquire_that_is_refused_after_it_was_cut_off_leaves_nothing, plain),
    FAULT_TEST_OF_ALL(a_nested_acquire_that_is_cut_off_counts_once),
    FAULT_TEST_OF_ALL(a_nested_acquire_without_an_answer_is_corrected_by_the_next_command),
    FAULT_TEST_OF_ALL(a_partial_unlock_that_is_cut_off_counts_once),
    FAULT_TEST_OF_ALL(a_partial_unlock_without_an_answer_is_corrected_by_the_next_command),
    FAULT_TEST_OF_ALL(a_last_unlock_that_is_cut_off_is_ok),
    FAULT_TEST_OF(a_last_unlock_that_is_cut_off_is_ok_though_another_has_the_lock, plain),
    FAULT_TEST_OF_ALL(a_last_unlock_without_an_answer_leaves_nothing),
    FAULT_TEST_OF(an_extension_that_is_cut_off_counts, read),
    FAULT_TEST_OF(an_extension_without_an_answer_leaves_the_lease_as_it_was_or_longer, read),
};

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(an_acquire_that_is_cut_off_is_repeated_and_counts_once),
        FAULT_TEST(an_acquire_without_an_answer_is_not_held_and_leaves_nothing),
        FAULT_TEST(an_acquire_that_is_refused_after_it_was_cut_off_leaves_nothing),
        FAULT_TEST(a_grant_that_comes_too_late_is_released),
        FAULT_TEST(a_nested_acquire_that_is_cut_off_counts_once),
        FAULT_TEST(a_nested_acquire_without_an_answer_is_corrected_by_the_next_command),
        FAULT_TEST(a_partial_unlock_that_is_cut_off_counts_once),
        FAULT_TEST(a_partial_unlock_without_an_answer_is_corrected_by_the_next_command),
        FAULT_TEST(a_hold_with_a_level_without_an_answer_is_not_handed_off),
        FAULT_TEST(a_last_unlock_that_is_cut_off_is_ok),
        FAULT_TEST(a_last_unlock_that_is_cut_off_is_ok_though_another_has_the_lock),
        FAULT_TEST(a_last_unlock_without_an_answer_leaves_nothing),
        FAULT_TEST(an_extension_that_is_cut_off_counts),
        FAULT_TEST(an_extension_without_an_answer_leaves_the_lease_as_it_was_or_longer),
    };

    faults_take_rights(argc, argv);
    return kind_faults_wanted(argc, argv) ? FAULT_TESTS_RUN(of_kinds) : FAULT_TESTS_RUN(tests);
}
