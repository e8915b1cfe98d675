/* The queue of the fair lock: the waiters that a script notifies: scripts/fair_*.lua,
 * docs/wire.md#fair. */
#include "fair_scripts.h"

#include "support/listener.h"

static void the_new_first_waiter_is_notified_when_a_dead_one_blocked_it(void **state)
{
    struct fixture *f = *state;
    struct listener *next = listener_open(f->server->socket, CHANNEL_OF(C));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_true(fair_lock(f, C, 1) > 0);
    fair_let_die(f, B);
    assert_true(fair_lock(f, D, 1) > 0); /* the lock is not free: not yet */
    assert_true(listener_hears_nothing(next, 20));

    fair_add_foreign(f, B, REDISSON_MS);
    fair_leave(f, A);
    assert_true(listener_hears(next, "0", SOON_MS));
    assert_int_equal(probe_int(f->probe, "LREM " QUEUE " 0 " B), 1);
    assert_int_equal(probe_int(f->probe, "LPUSH " QUEUE " " B), 3);
    fair_let_die(f, B);
    assert_true(fair_trylock(f, A) > 0);
    assert_true(listener_hears(next, "0", SOON_MS));
    assert_true(fair_trylock(f, A) > 0); /* once is enough */
    assert_true(listener_hears_nothing(next, 20));
    fair_leave(f, D);
    fair_leave(f, C);
    listener_close(next);
}

/* A holds the lock, and C waits behind B, which is dead, when A releases it or loses it by force.
 */
static void notifies_the_first_living_waiter(struct fixture *f, bool by_force)
{
    struct listener *dead = listener_open(f->server->socket, CHANNEL_OF(B));
    struct listener *next = listener_open(f->server->socket, CHANNEL_OF(C));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_true(fair_lock(f, C, 1) > 0);
    fair_let_die(f, B);
    if (by_force)
        assert_int_equal(fair_force_unlock(f, A), 1);
    else
        assert_int_equal(fair_unlock(f, A, 0), 2);
    assert_true(listener_hears(next, "0", SOON_MS));
    assert_true(listener_hears_nothing(dead, 20));
    assert_int_equal(fair_lock(f, C, 1), GRANTED);
    assert_int_equal(fair_place(f, B), -1);
    fair_leave(f, C);
    listener_close(next);
    listener_close(dead);
}

static void a_release_notifies_the_first_living_waiter(void **state)
{
    notifies_the_first_living_waiter(*state, false);
}

static void a_forced_release_notifies_the_first_living_waiter(void **state)
{
    notifies_the_first_living_waiter(*state, true);
}

static void the_next_waiter_is_notified_when_the_first_leaves_a_free_lock(void **state)
{
    struct fixture *f = *state;
    struct listener *next = listener_open(f->server->socket, CHANNEL_OF(C));
    struct listener *first = listener_open(f->server->socket, CHANNEL_OF(B));
    struct listener *last = listener_open(f->server->socket, CHANNEL_OF(D));

    fair_add_foreign(f, B, REDISSON_MS);
    fair_add_foreign(f, C, REDISSON_MS);
    fair_add_foreign(f, D, REDISSON_MS);
    assert_int_equal(fair_unlock(f, D, 0), 1); /* was in nobody's way */
    assert_true(listener_hears_nothing(first, 20));
    assert_true(listener_hears_nothing(next, 20));
    assert_int_equal(fair_unlock(f, B, 0), 1);
    assert_true(listener_hears(next, "0", SOON_MS));
    assert_int_equal(fair_lock(f, C, 1), GRANTED);

    fair_add_foreign(f, B, PATIENCE_MS);
    fair_add_foreign(f, D, PATIENCE_MS);
    assert_int_equal(fair_unlock(f, B, 0), 1); /* C holds it for longer than D sleeps */
    assert_true(listener_hears_nothing(last, 20));
    fair_leave(f, D);
    fair_leave(f, C);
    listener_close(first);
    listener_close(last);
    listener_close(next);
}

/* C becomes first, `rest_ms` before its recheck. */
static void becomes_first(struct fixture *f, long long rest_ms, bool is_woken)
{
    struct listener *first = listener_open(f->server->socket, CHANNEL_OF(C));
    const uint64_t lease_ms = LEASE_MS;

    assert_int_equal(fair_lock_with(f, 3 * lease_ms, A, 1, PATIENCE_MS), GRANTED);
    fair_add_foreign(f, B, REDISSON_MS);
    fair_add_foreign(f, C, rest_ms);
    fair_leave(f, A);
    assert_int_equal(fair_lock_with(f, lease_ms, B, 1, PATIENCE_MS), GRANTED);
    assert_int_equal(listener_hears(first, "0", is_woken ? SOON_MS : 20), is_woken);

    assert_int_equal(probe_int(f->probe, "LPUSH " QUEUE " " D), 2);
    fair_set_rest(f, D, REDISSON_MS);
    fair_leave(f, D);
    assert_int_equal(listener_hears(first, "0", is_woken ? SOON_MS : 20), is_woken);

    assert_int_equal(probe_int(f->probe, "LPUSH " QUEUE " " D), 2);
    fair_set_rest(f, D, -1);
    assert_true(fair_trylock(f, A) > 0);
    assert_int_equal(listener_hears(first, "0", is_woken ? SOON_MS : 20), is_woken);

    assert_int_equal(probe_int(f->probe, "LPUSH " QUEUE " " D), 2);
    fair_set_rest(f, D, -1);
    assert_int_equal(fair_lock(f, B, 2), GRANTED);
    assert_int_equal(listener_hears(first, "0", is_woken ? SOON_MS : 20), is_woken);
    fair_leave(f, C);
    fair_leave(f, B);
    listener_close(first);
}

/* By a grant, as one before it leaves or is dropped. */
static void a_new_first_waiter_is_woken_if_the_lease_ends_before_its_recheck(void **state)
{
    becomes_first(*state, LEASE_MS + PATIENCE_MS, true);
}

/* A granted call whose answer was lost: the settling finds a hold, or a place, or nothing. */
static void a_new_first_waiter_is_not_woken_if_its_recheck_precedes_the_lease_end(void **state)
{
    becomes_first(*state, LEASE_MS - PATIENCE_MS, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(the_new_first_waiter_is_notified_when_a_dead_one_blocked_it),
        SERVER_TEST(a_release_notifies_the_first_living_waiter),
        SERVER_TEST(a_forced_release_notifies_the_first_living_waiter),
        SERVER_TEST(the_next_waiter_is_notified_when_the_first_leaves_a_free_lock),
        SERVER_TEST(a_new_first_waiter_is_woken_if_the_lease_ends_before_its_recheck),
        SERVER_TEST(a_new_first_waiter_is_not_woken_if_its_recheck_precedes_the_lease_end),
    };

    return SERVER_TESTS_RUN(tests);
}
