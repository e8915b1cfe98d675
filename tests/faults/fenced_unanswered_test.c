/*
 * A fenced lock whose commands are not answered: a repeated acquire has one token, and a grant that
 * reached no caller leaves a gap between tokens and nothing else.
 */
#include "faults.h"

#define COUNTER "redisson_lock_token:{orders}"

static struct relock_lock *lock_of(struct faults *t, uint64_t command_timeout_ms)
{
    struct relock_client *client = faults_calm_client(t, command_timeout_ms);

    return fixture_lock_of(t->f, client, "orders", relock_fencedlock_new);
}

static void an_acquire_that_is_cut_off_is_repeated_and_has_one_token(void **state)
{
    static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, slow_ms(SOON_MS));
    struct relock_grant grant;

    for (size_t i = 0; i < 2; i++) {
        proxy_next(t->proxy, cuts[i], "fenced_lock 1 orders");
        assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
        assert_int_equal(proxy_count(t->proxy, "fenced_lock 1 orders"), 2 * (i + 1));
        assert_int_equal(grant.fencing_token, i + 1);
        assert_int_equal(probe_int(t->f->probe, "GET " COUNTER), i + 1);
        assert_int_equal(probe_only_value(t->f->probe, "orders"), 1);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

static void a_level_that_is_cut_off_is_repeated_and_keeps_the_token(void **state)
{
    static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, slow_ms(SOON_MS));
    struct relock_grant grant;

    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        proxy_next(t->proxy, cuts[i], "fenced_lock 1 orders");
        assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
        assert_int_equal(grant.fencing_token, i + 1);
        assert_int_equal(grant.hold_count, 2);
        assert_int_equal(probe_only_value(t->f->probe, "orders"), 2);
        assert_int_equal(probe_int(t->f->probe, "GET " COUNTER), i + 1);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

/* Granted, but no caller knows: the next token is greater all the same. */
static void an_unanswered_grant_is_released_with_its_token(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, short_ms());
    struct relock_grant grant;

    proxy_next(t->proxy, PROXY_SWALLOW, "fenced_lock 1 orders");
    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_E_CONN);
    assert_true(grant.fencing_token == 0);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
    assert_int_equal(probe_int(t->f->probe, "GET " COUNTER), 1);

    assert_result(relock_acquire(lock, &(struct relock_how){.wait_ms = RELOCK_FOREVER}, &grant),
                  RELOCK_OK);
    assert_int_equal(grant.fencing_token, 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* The counter stays by its nature. */
static int end(void **state)
{
    struct faults *t = *state;

    probe_int(t->f->probe, "DEL " COUNTER);
    return faults_end(state);
}

#define TOKEN_TEST(function) cmocka_unit_test_setup_teardown(function, faults_begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKEN_TEST(an_acquire_that_is_cut_off_is_repeated_and_has_one_token),
        TOKEN_TEST(a_level_that_is_cut_off_is_repeated_and_keeps_the_token),
        TOKEN_TEST(an_unanswered_grant_is_released_with_its_token),
    };

    return FAULT_TESTS_RUN(tests);
}
