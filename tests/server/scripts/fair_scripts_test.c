/* The grants, releases and notifications of scripts/fair_*.lua: docs/wire.md#fair. */
#include "fair_scripts.h"

#include "redis/server/script.h"
#include "support/listener.h"
#include "support/scripts.h"

static void the_order_of_grants_is_the_order_of_arrival(void **state)
{
    static const char *const owners[] = {A, B, C, D};
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    for (int i = 1; i < 4; i++)
        assert_true(fair_lock(f, owners[i], 1) > 0);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(fair_unlock(f, owners[i - 1], 0), 1);
        for (int late = 3; late > i; late--)
            assert_true(fair_lock(f, owners[late], 1) > 0);
        assert_int_equal(fair_lock(f, owners[i], 1), GRANTED);
    }
    assert_int_equal(fair_unlock(f, D, 0), 1);
}

/* The scores decide which waiters are dead: each grant lowers them, each attempt raises them. */
static void the_order_stays_through_many_leases_of_waiting(void **state)
{
    static const char *const owners[] = {B, C, D};
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    for (int i = 0; i < 3; i++)
        assert_true(fair_lock(f, owners[i], 1) > 0);
    for (int i = 0; i < 3; i++) /* as after an hour, just before each retries */
        fair_set_rest(f, owners[i], PATIENCE_MS * 2 / 3);
    for (int i = 0; i < 3; i++)
        assert_true(fair_lock(f, owners[i], 1) > 0);
    assert_int_equal(fair_unlock(f, A, 0), 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fair_lock(f, owners[i], 1), GRANTED);
        if (i < 2)
            assert_true(fair_lock(f, A, 1) > 0); /* drops the waiters that seem dead */
        assert_int_equal(fair_unlock(f, owners[i], 0), 1);
        if (i < 2)
            assert_int_equal(fair_unlock(f, A, 0), 1);
    }
}

static void nobody_barges_past_a_queue(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_int_equal(fair_unlock(f, A, 0), 1);

    assert_true(fair_trylock(f, C) > 0);
    assert_int_equal(fair_length(f), 1); /* a try queues nobody */
    assert_true(fair_lock(f, D, 1) > 0);
    assert_true(fair_lock(f, D, 1) > 0);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_int_equal(fair_unlock(f, B, 0), 1);
    assert_int_equal(fair_lock(f, D, 1), GRANTED);
    assert_int_equal(fair_unlock(f, D, 0), 1);
}

static void a_try_takes_a_lock_that_nobody_waits_for(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_trylock(f, A), GRANTED);
    assert_true(fair_trylock(f, B) > LEASE_MS / 2);
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_int_equal(fair_unlock(f, A, 0), 1);
}

static void a_repeated_attempt_does_no_harm(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 2; i++)
        assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    for (int i = 0; i < 2; i++)
        assert_true(fair_lock(f, B, 1) > 0);
    assert_int_equal(fair_length(f), 1);
    assert_int_equal(fair_unlock(f, A, 0), 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_int_equal(fair_unlock(f, B, 0), 1);
}

static void a_repeated_unlock_does_no_harm(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_int_equal(fair_lock(f, A, 2), GRANTED);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fair_unlock(f, A, 1), 1);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_int_equal(fair_unlock(f, A, 0), 1);
    assert_int_equal(fair_unlock(f, A, 0), 0);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_int_equal(fair_unlock(f, A, 0), -1);
    assert_string_equal(probe_only_field(f->probe, "orders"), B);
    assert_int_equal(fair_unlock(f, B, 0), 1);
}

static void a_repeated_force_unlock_does_no_harm(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_int_equal(fair_force_unlock(f, A), 1);
    assert_int_equal(fair_force_unlock(f, A), 0);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_int_equal(fair_force_unlock(f, A), 0);
    assert_string_equal(probe_only_field(f->probe, "orders"), B);
    assert_int_equal(fair_force_unlock(f, B), 1);
}

static void counts_are_set_and_not_added(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_int_equal(fair_lock(f, A, 5), GRANTED);
    assert_int_equal(probe_only_value(f->probe, "orders"), 5);
    assert_int_equal(fair_lock(f, A, 3), GRANTED);
    assert_int_equal(probe_only_value(f->probe, "orders"), 3);
    assert_int_equal(fair_unlock(f, A, 2), 1);
    assert_int_equal(probe_only_value(f->probe, "orders"), 2);
    assert_int_equal(fair_unlock(f, A, 0), 1);
}

static void a_deeper_level_never_makes_a_hold(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 2), -2);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_true(fair_lock(f, A, 2) > LEASE_MS / 2);
    assert_int_equal(fair_place(f, A), -1);
    assert_int_equal(probe_int(f->probe, "PERSIST orders"), 1);
    assert_int_equal(fair_lock(f, A, 2), -1);
    assert_int_equal(fair_unlock(f, B, 0), 1);
}

static void a_lease_is_never_shortened(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_int_equal(fair_lock_with(f, 10, A, 2, PATIENCE_MS), GRANTED);
    assert_true(probe_pttl(f->probe, "orders") > LEASE_MS / 2);
    assert_int_equal(fair_lock_with(f, 4 * LEASE_MS, A, 3, PATIENCE_MS), GRANTED);
    assert_true(probe_pttl(f->probe, "orders") > 2 * LEASE_MS);
    assert_int_equal(fair_unlock(f, A, 1), 1);
    assert_true(probe_pttl(f->probe, "orders") > 2 * LEASE_MS);
    assert_int_equal(fair_unlock(f, A, 0), 1);
}

static void a_refused_waiter_learns_the_remaining_lease(void **state)
{
    struct fixture *f = *state;
    long long rest_ms;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    rest_ms = fair_lock(f, B, 1);
    assert_in_range(rest_ms, LEASE_MS / 2, LEASE_MS);
    rest_ms = fair_lock(f, C, 1);
    assert_in_range(rest_ms, LEASE_MS / 2 + 100, LEASE_MS + 100); /* after the first */
    assert_int_equal(probe_int(f->probe, "PERSIST orders"), 1);
    assert_int_equal(fair_lock(f, B, 1), -1);
    assert_int_equal(fair_unlock(f, C, 0), 1);
    assert_int_equal(fair_unlock(f, B, 0), 1);
    assert_int_equal(fair_unlock(f, A, 0), 1);
}

/* The holder may publish nothing, so the waiter retries soon, and later if more are ahead of it.
 * Redisson returns 0 here, and its waiters spin. */
static void a_waiter_behind_the_first_of_a_free_lock_retries_soon(void **state)
{
    static const char *const waiters[] = {B, C, D};
    struct fixture *f = *state;

    fair_add_foreign(f, J1, REDISSON_MS);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++)
            assert_int_equal(fair_lock(f, waiters[i], 1), 100 * (i + 1));
    fair_set_rest(f, J1, SOON_MS);
    assert_int_equal(fair_lock(f, B, 1), 100);
    assert_int_equal(fair_trylock(f, A), 100);
    fair_let_die(f, J1);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fair_unlock(f, waiters[i], 0), 1);
}

static void an_unlock_notifies_only_the_first_waiter(void **state)
{
    struct fixture *f = *state;
    struct listener *first = listener_open(f->server->socket, CHANNEL_OF(B));
    struct listener *second = listener_open(f->server->socket, CHANNEL_OF(C));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_int_equal(fair_lock(f, A, 2), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_true(fair_lock(f, C, 1) > 0);
    assert_int_equal(fair_unlock(f, A, 1), 1);
    assert_true(listener_hears_nothing(first, 20));
    assert_int_equal(fair_unlock(f, A, 0), 2); /* one heard it */
    assert_true(listener_hears(first, "0", SOON_MS));
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_true(listener_hears_nothing(second, 20));

    assert_true(fair_lock(f, D, 1) > 0);
    assert_int_equal(fair_force_unlock(f, B), 1);
    assert_true(listener_hears(second, "0", SOON_MS));
    assert_true(listener_hears_nothing(first, 20));
    assert_int_equal(fair_unlock(f, D, 0), 1);
    assert_int_equal(fair_lock(f, C, 1), GRANTED);
    assert_int_equal(fair_unlock(f, C, 0), 1);
    listener_close(first);
    listener_close(second);
}

/* Redisson's script reports success to any caller. */
static void the_unlock_of_an_expired_hold_finds_it_gone(void **state)
{
    struct fixture *f = *state;
    struct listener *first = listener_open(f->server->socket, CHANNEL_OF(B));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1); /* as when its lease has ended */
    assert_int_equal(fair_unlock(f, A, 1), 0);
    assert_int_equal(fair_unlock(f, A, 0), 0);
    assert_int_equal(fair_force_unlock(f, A), 0);
    assert_true(listener_hears_nothing(first, 20));
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_int_equal(fair_unlock(f, A, 0), -1);
    assert_int_equal(fair_unlock(f, A, 1), -1);
    assert_int_equal(fair_unlock(f, B, 0), 1);
    listener_close(first);
}

static void nothing_is_left_after_the_last_one(void **state)
{
    static const char *const names[] = {"orders", "{shop}:orders", "odd}"};
    struct fixture *f = *state;

    for (size_t i = 0; i < 3; i++) {
        const char *const lock = relock_script_fair_lock.body;
        const char *const unlock = relock_script_fair_unlock.body;

        script_int(f->probe, lock, names[i], SCRIPT_ARGS("30000", A, "1", PATIENCE, "1"));
        script_int(f->probe, lock, names[i], SCRIPT_ARGS("30000", B, "1", PATIENCE, "1"));
        assert_int_equal(probe_n_keys(f->probe), 3);
        script_int(f->probe, unlock, names[i], SCRIPT_ARGS(A, "0", PATIENCE));
        script_int(f->probe, lock, names[i], SCRIPT_ARGS("30000", B, "1", PATIENCE, "1"));
        assert_int_equal(probe_n_keys(f->probe), 1);
        script_int(f->probe, unlock, names[i], SCRIPT_ARGS(B, "0", PATIENCE));
        assert_int_equal(probe_n_keys(f->probe), 0);
    }
}

static void a_name_with_a_brace_has_no_further_braces_in_its_keys(void **state)
{
    struct fixture *f = *state;
    struct listener *first =
        listener_open(f->server->socket, "redisson_lock__channel:{shop}:orders:" B);
    const char *const lock = relock_script_fair_lock.body;

    script_int(f->probe, lock, "{shop}:orders", SCRIPT_ARGS("30000", A, "1", PATIENCE, "1"));
    script_int(f->probe, lock, "{shop}:orders", SCRIPT_ARGS("30000", B, "1", PATIENCE, "1"));
    assert_int_equal(probe_int(f->probe, "EXISTS {shop}:orders redisson_lock_queue:{shop}:orders "
                                         "redisson_lock_timeout:{shop}:orders"),
                     3);
    assert_int_equal(script_int(f->probe, relock_script_fair_unlock.body, "{shop}:orders",
                                SCRIPT_ARGS(A, "0", PATIENCE)),
                     2);
    assert_true(listener_hears(first, "0", SOON_MS));
    script_int(f->probe, lock, "{shop}:orders", SCRIPT_ARGS("30000", B, "1", PATIENCE, "1"));
    assert_int_equal(script_int(f->probe, relock_script_fair_force_unlock.body, "{shop}:orders",
                                SCRIPT_ARGS(B, PATIENCE)),
                     1);
    script_int(f->probe, lock, "{shop}:orders", SCRIPT_ARGS("30000", A, "1", PATIENCE, "1"));
    script_int(f->probe, lock, "{shop}:orders", SCRIPT_ARGS("30000", B, "1", PATIENCE, "1"));
    assert_int_equal(script_int(f->probe, relock_script_fair_force_unlock.body, "{shop}:orders",
                                SCRIPT_ARGS(A, PATIENCE)),
                     1);
    assert_true(listener_hears(first, "0", SOON_MS));
    script_int(f->probe, relock_script_fair_unlock.body, "{shop}:orders",
               SCRIPT_ARGS(B, "0", PATIENCE));
    listener_close(first);
}

static void a_user_without_a_right_leaves_no_lock_behind(void **state)
{
    static const char *const denied[] = {"-pexpire", "-hset", "-lrem", "-zrem"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++) {
        struct probe *user = script_user(f->probe, f->server->socket, denied[i]);

        assert_int_equal(script_int(user, relock_script_fair_lock.body, "orders",
                                    SCRIPT_ARGS("30000", A, "1", PATIENCE, "1")),
                         PROBE_REFUSED);
        assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
        probe_close(user);
    }
}

static void a_publish_that_is_refused_breaks_nothing(void **state)
{
    struct fixture *f = *state;
    struct probe *user = script_user(f->probe, f->server->socket, "-publish");
    const struct script_args *a_leaves = SCRIPT_ARGS(A, "0", PATIENCE);
    const char *const unlock = relock_script_fair_unlock.body;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_true(fair_lock(f, C, 1) > 0);
    assert_int_equal(script_int(user, unlock, "orders", a_leaves), -2);
    assert_int_equal(script_int(user, unlock, "orders", a_leaves), 0);
    assert_int_equal(script_int(user, unlock, "orders", SCRIPT_ARGS(B, "0", PATIENCE)), 1);
    assert_int_equal(fair_place(f, C), 0);
    assert_int_equal(fair_lock(f, C, 1), GRANTED);
    assert_true(fair_lock(f, D, 1) > 0);
    assert_int_equal(
        script_int(user, relock_script_fair_force_unlock.body, "orders", SCRIPT_ARGS(C, PATIENCE)),
        2);
    assert_true(fair_lock(f, A, 1) > 0);
    fair_let_die(f, D);
    assert_string_equal(script_list(user, relock_script_fair_lock.body, "orders",
                                    SCRIPT_ARGS("30000", B, "1", PATIENCE, "1")),
                        "1000 1"); /* tells A, or tries */
    assert_int_equal(fair_unlock(f, A, 0), 1);
    assert_int_equal(fair_unlock(f, B, 0), 1);
    probe_close(user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(the_order_of_grants_is_the_order_of_arrival),
        SERVER_TEST(the_order_stays_through_many_leases_of_waiting),
        SERVER_TEST(nobody_barges_past_a_queue),
        SERVER_TEST(a_try_takes_a_lock_that_nobody_waits_for),
        SERVER_TEST(a_repeated_attempt_does_no_harm),
        SERVER_TEST(a_repeated_unlock_does_no_harm),
        SERVER_TEST(a_repeated_force_unlock_does_no_harm),
        SERVER_TEST(counts_are_set_and_not_added),
        SERVER_TEST(a_deeper_level_never_makes_a_hold),
        SERVER_TEST(a_lease_is_never_shortened),
        SERVER_TEST(a_refused_waiter_learns_the_remaining_lease),
        SERVER_TEST(a_waiter_behind_the_first_of_a_free_lock_retries_soon),
        SERVER_TEST(an_unlock_notifies_only_the_first_waiter),
        SERVER_TEST(the_unlock_of_an_expired_hold_finds_it_gone),
        SERVER_TEST(nothing_is_left_after_the_last_one),
        SERVER_TEST(a_name_with_a_brace_has_no_further_braces_in_its_keys),
        SERVER_TEST(a_user_without_a_right_leaves_no_lock_behind),
        SERVER_TEST(a_publish_that_is_refused_breaks_nothing),
    };

    return SERVER_TESTS_RUN(tests);
}
