/* Holds without a lease of their own are renewed until they are released, and no longer. */
#include "support/child.h"
#include "support/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* So long that a hold outlives a second in which a machine stands still. */
#define LEASE_MS 2000
#define N_LOCKS 1000

static struct relock_options short_lease(void)
{
    return (struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)};
}

/* The most renewals of a hold within a time measured from before its first level, with one in
 * flight. */
static uint64_t most_renewals(uint64_t passed_ms)
{
    return passed_ms / (slow_ms(LEASE_MS) * 3 / 10) + 1;
}

static void a_hold_is_renewed_every_third_of_its_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = short_lease();
    struct relock_client *client = fixture_client(f, &options);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t began_ms = now_ms(), renewed;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_for_renewals(client, 0, 6));
    renewed = stats_of(client).renewed;
    assert_true(renewed <= most_renewals(now_ms() - began_ms));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void the_certain_time_stays_above_two_thirds(void **state)
{
    struct fixture *f = *state;
    uint64_t lease_ms = slow_ms(3 * LEASE_MS);
    struct relock_lock *lock = fixture_lock(
        f, fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = lease_ms}), "orders");
    uint64_t until_ms = now_ms() + lease_ms * 3 / 4, least_ms = lease_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    while (now_ms() < until_ms) {
        uint64_t valid_ms = relock_valid_ms(lock);

        assert_true(valid_ms <= lease_ms);
        least_ms = valid_ms < least_ms ? valid_ms : least_ms;
        let_pass(2);
    }
    /* A third, and the delays of a slow machine. */
    assert_no_later(lease_ms - least_ms, lease_ms / 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void after_unlock_the_key_is_never_seen_again(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = short_lease();
    struct relock_client *client = fixture_client(f, &options);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t due_ms = slow_ms(LEASE_MS) * 3 / 10, renewed, until_ms;

    for (uint64_t i = 0; i < 9; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        let_pass(due_ms - 5 + i); /* about when a renewal is due */
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    }
    renewed = stats_of(client).renewed;
    until_ms = now_ms() + 2 * due_ms;
    while (now_ms() < until_ms) {
        assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
        let_pass(2);
    }
    assert_int_equal(stats_of(client).renewed, renewed);
}

static void all_levels_of_one_hold_are_one_renewal(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = short_lease();
    struct relock_client *client = fixture_client(f, &options);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t began_ms = now_ms(), renewed;

    for (int level = 0; level < 10; level++)
        assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_for_renewals(client, 0, 3));
    renewed = stats_of(client).renewed;
    assert_true(renewed <= most_renewals(now_ms() - began_ms));
    for (int level = 0; level < 10; level++)
        assert_result(relock_unlock(lock), RELOCK_OK);
}

static void renewing_says_nothing_about_the_count(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = short_lease();
    struct relock_client *client = fixture_client(f, &options);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t until_ms = deadline_in(SOON_MS);

    assert_result(relock_lock(lock), RELOCK_OK);
    while (stats_of(client).renewed < 3) {
        assert_true(late_unless(now_ms() < until_ms));
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_int_equal(probe_only_value(f->probe, "orders"), 2);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_thousand_holds_outlive_their_leases(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.watchdog_timeout_ms = slow_ms(2 * LEASE_MS)};
    struct relock_client *client = fixture_client(f, &options);
    struct relock_lock **locks = calloc(N_LOCKS, sizeof(*locks));
    uint64_t until_ms;
    char name[32];

    assert_non_null(locks);
    for (int i = 0; i < N_LOCKS; i++) {
        snprintf(name, sizeof(name), "lock %d", i);
        assert_result(relock_lock_new(client, name, &locks[i]), RELOCK_OK);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }

    until_ms = deadline_in(LEASE_MS * 9 / 4);
    while (now_ms() < until_ms) {
        assert_int_equal(probe_n_keys(f->probe), N_LOCKS);
        let_pass(5);
    }
    assert_int_equal(stats_of(client).holds, N_LOCKS);
    assert_int_equal(stats_of(client).lost, 0);
    assert_int_equal(stats_of(client).renewal_failures, 0);

    for (int i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
    until_ms = deadline_in(500);
    while (now_ms() < until_ms)
        assert_int_equal(probe_n_keys(f->probe), 0);

    for (int i = 0; i < N_LOCKS; i++)
        relock_lock_free(locks[i]);
    free(locks);
}

static int hold_until_killed(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_options options = short_lease();
    struct relock_client *client = child_client(f, &options);
    struct relock_lock *lock;

    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(child_send(parent, 1));
    while (!child_await(parent))
        ;
    return EXIT_SUCCESS;
}

static void a_killed_process_holds_no_longer_than_its_lease(void **state)
{
    struct fixture *f = *state;
    struct child *child = child_start(hold_until_killed, f);
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_true(child_await(child));
    let_pass(slow_ms(LEASE_MS * 5 / 4)); /* it is renewed */
    assert_result(relock_trylock(lock), RELOCK_BUSY);

    child_signal(child, SIGKILL);
    assert_int_equal(child_wait(child, SOON_MS), 128 + SIGKILL);
    assert_true(probe_pttl(f->probe, "orders") <= (long long)slow_ms(LEASE_MS));
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_hold_is_renewed_every_third_of_its_lease),
        SERVER_TEST(the_certain_time_stays_above_two_thirds),
        SERVER_TEST(after_unlock_the_key_is_never_seen_again),
        SERVER_TEST(all_levels_of_one_hold_are_one_renewal),
        SERVER_TEST(renewing_says_nothing_about_the_count),
        SERVER_TEST(a_thousand_holds_outlive_their_leases),
        SERVER_TEST(a_killed_process_holds_no_longer_than_its_lease),
    };

    return SERVER_TESTS_RUN(tests);
}
