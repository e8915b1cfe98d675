/*
 * A semaphore whose commands are not answered: a repeated acquire has its permits once, and a grant
 * that reached no caller goes back.
 */
#include "faults.h"

#define OUT "{orders}:timeout"
#define N_PERMITS 5

static struct relock_lock *lock_of(struct faults *t, uint64_t command_timeout_ms)
{
    struct relock_client *client = faults_calm_client(t, command_timeout_ms);
    struct relock_lock *lock = fixture_lock_of(t->f, client, "orders", relock_semaphore_new);

    assert_result(relock_semaphore_set(lock, N_PERMITS), RELOCK_OK);
    return lock;
}

static int take(struct relock_lock *lock, uint64_t n)
{
    return relock_acquire(lock, &(struct relock_how){.permits = n}, NULL);
}

static void assert_out(struct faults *t, uint64_t n)
{
    assert_int_equal(probe_int(t->f->probe, "GET orders"), N_PERMITS - n);
    assert_int_equal(probe_int(t->f->probe, "ZCARD " OUT), n);
}

static void an_acquire_that_is_cut_off_is_repeated_and_counts_once(void **state)
{
    static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, slow_ms(SOON_MS));

    for (size_t i = 0; i < 2; i++) {
        proxy_next(t->proxy, cuts[i], "semaphore_lock 1 orders");
        assert_result(take(lock, 3), RELOCK_OK);
        assert_int_equal(proxy_count(t->proxy, "semaphore_lock 1 orders"), 2 * (i + 1));
        assert_out(t, 3);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_out(t, 0);
    }
}

static void a_release_that_is_cut_off_is_repeated_and_counts_once(void **state)
{
    static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, slow_ms(SOON_MS));

    for (size_t i = 0; i < 2; i++) {
        assert_result(take(lock, 3), RELOCK_OK);
        assert_result(take(lock, 2), RELOCK_OK);
        proxy_next(t->proxy, cuts[i], "semaphore_unlock 1 orders");
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_out(t, 3);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_out(t, 0);
    }
}

static bool are_all_free(void *probe)
{
    return probe_int(probe, "GET orders") == N_PERMITS && probe_int(probe, "EXISTS " OUT) == 0;
}

static void an_unanswered_grant_goes_back(void **state)
{
    static const enum proxy_deed losses[] = {PROXY_SWALLOW, PROXY_LOSE};
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, short_ms());

    for (size_t i = 0; i < 2; i++) {
        proxy_next(t->proxy, losses[i], "semaphore_lock 1 orders");
        assert_result(take(lock, 4), RELOCK_E_CONN);
        assert_true(wait_until(are_all_free, t->f->probe, SOON_MS));
        assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    }
    assert_result(take(lock, N_PERMITS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void an_unanswered_release_is_completed(void **state)
{
    static const enum proxy_deed losses[] = {PROXY_SWALLOW, PROXY_LOSE};
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, short_ms());

    for (size_t i = 0; i < 2; i++) {
        assert_result(take(lock, 4), RELOCK_OK);
        proxy_next(t->proxy, losses[i], "semaphore_unlock 1 orders");
        assert_result(relock_unlock(lock), RELOCK_E_CONN);
        assert_true(wait_until(are_all_free, t->f->probe, SOON_MS));
    }
}

static int take_two(void *lock)
{
    return relock_acquire(lock, &(struct relock_how){.permits = 2, .wait_ms = LONG_MS}, NULL);
}

static int take_all(void *lock)
{
    return relock_acquire(lock, &(struct relock_how){.permits = N_PERMITS, .wait_ms = LONG_MS},
                          NULL);
}

static bool has_expired(void *lock)
{
    struct relock_permits permits;

    return relock_semaphore_read(lock, &permits) == RELOCK_OK && permits.n_out == N_PERMITS - 1;
}

/* `lease_ms`: of the late grant, if it is to end before the release; or 0. */
static void asks_again_after_a_late_grant(struct faults *t, uint64_t lease_ms)
{
    const struct relock_how how = {.permits = 1, .lease_ms = lease_ms};
    struct relock_lock *lock = lock_of(t, short_ms());
    struct relock_lock *theirs =
        fixture_lock_of(t->f, fixture_client(t->f, NULL), "orders", relock_semaphore_new);
    struct relock_lock *first =
        fixture_lock_of(t->f, fixture_client(t->f, NULL), "orders", relock_semaphore_new);
    struct actor *large = actor_start(), *later = actor_start();
    struct proxy_rule *release;

    assert_result(take(theirs, N_PERMITS - 1), RELOCK_OK);
    release = proxy_next(t->proxy, PROXY_HOLD, "semaphore_unlock 1 orders");
    proxy_next(t->proxy, PROXY_SWALLOW, "semaphore_lock 1 orders");
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_E_CONN);
    assert_true(proxy_met(release, 1));
    if (lease_ms > 0)
        assert_true(wait_until(has_expired, theirs, SOON_MS));
    actor_begin(large, take_all, first);
    assert_true(probe_wait_in_line(t->f->probe, "orders", 1));
    actor_begin(later, take_two, lock);
    assert_true(probe_wait_in_line(t->f->probe, "orders", 2));
    assert_true(proxy_counts(t->proxy, "semaphore_lock 1 orders", 3)); /* it has subscribed */
    proxy_let_go(release);
    assert_true(proxy_counts(t->proxy, "semaphore_lock 1 orders", 4));
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_result(actor_result(large), RELOCK_OK);
    assert_result(actor_unlock(large, first), RELOCK_OK);
    assert_result(actor_result(later), RELOCK_OK);
    assert_result(actor_unlock(later, lock), RELOCK_OK);
}

/* A grant that nobody heard of takes the client out of the line, perhaps after a later call has
 * joined it. When it was given back, that call asks again. */
static void a_call_in_line_asks_again_after_a_late_grant(void **state)
{
    asks_again_after_a_late_grant(*state, 0);
}

static void a_call_in_line_asks_again_after_a_late_grant_that_has_expired(void **state)
{
    asks_again_after_a_late_grant(*state, 50);
}

/* The answer is lost, so it is not known: but it was added once. */
static void permits_are_added_at_most_once(void **state)
{
    static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, slow_ms(SOON_MS));

    for (size_t i = 0; i < 2; i++) {
        bool has_run = cuts[i] == PROXY_CUT_UNANSWERED;

        assert_result(relock_semaphore_set(lock, N_PERMITS), RELOCK_OK);
        proxy_next(t->proxy, cuts[i], "semaphore_permits 1 orders 5");
        assert_result(relock_semaphore_add(lock, 2), has_run ? RELOCK_E_CONN : RELOCK_OK);
        assert_int_equal(probe_int(t->f->probe, "GET orders"), N_PERMITS + 2);
    }
    assert_result(relock_semaphore_set(lock, N_PERMITS), RELOCK_OK);
}

/* While the server is down, permits that it has are certain until their lease ends. */
static void a_server_that_is_down_loses_permits_in_time(void **state)
{
    struct faults *t = *state;
    struct relock_options options = {.watchdog_timeout_ms = 400, .command_timeout_ms = short_ms()};
    struct relock_client *client = faults_client(t, &options);
    struct relock_lock *lock = fixture_lock_of(t->f, client, "orders", relock_semaphore_new);

    assert_result(relock_semaphore_set(lock, N_PERMITS), RELOCK_OK);
    assert_result(take(lock, 2), RELOCK_OK);
    assert_result(take(lock, 1), RELOCK_OK);
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_true(wait_for_lost(client, 2));
    proxy_refuse(t->proxy, false);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_true(wait_until(are_all_free, t->f->probe, SOON_MS)); /* the library gives them back */
}

/* The semaphore stays by its nature. */
static int end(void **state)
{
    struct faults *t = *state;

    probe_int(t->f->probe, "DEL orders");
    return faults_end(state);
}

#define PERMIT_TEST(function) cmocka_unit_test_setup_teardown(function, faults_begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PERMIT_TEST(an_acquire_that_is_cut_off_is_repeated_and_counts_once),
        PERMIT_TEST(a_release_that_is_cut_off_is_repeated_and_counts_once),
        PERMIT_TEST(an_unanswered_grant_goes_back),
        PERMIT_TEST(a_call_in_line_asks_again_after_a_late_grant),
        PERMIT_TEST(a_call_in_line_asks_again_after_a_late_grant_that_has_expired),
        PERMIT_TEST(an_unanswered_release_is_completed),
        PERMIT_TEST(permits_are_added_at_most_once),
        PERMIT_TEST(a_server_that_is_down_loses_permits_in_time),
    };

    return FAULT_TESTS_RUN(tests);
}
