/* The queue of the fair lock: its places, their deadlines, and how they end: scripts/fair_*.lua,
 * docs/wire.md#fair. */
#include "fair_scripts.h"

/* The deadline of `owner` is `rest_ms` after a moment between `before_ms` and now. */
static void assert_rest(struct fixture *f, const char *owner, long long before_ms,
                        long long rest_ms)
{
    long long deadline_ms = fair_deadline(f, owner);

    assert_in_range(deadline_ms, before_ms + rest_ms, fair_now(f) + rest_ms);
}

/* The deadline is a sign of life: it does not depend on the holder or on our waiters ahead. */
static void a_deadline_is_the_patience_of_the_waiter_from_now(void **state)
{
    static const char *const owners[] = {B, C, D};
    struct fixture *f = *state;

    assert_int_equal(fair_lock_with(f, 100 * LEASE_MS, A, 1, PATIENCE_MS), GRANTED);
    for (int i = 0; i < 3; i++) {
        long long before_ms = fair_now(f);

        assert_true(fair_lock(f, owners[i], 1) > 0);
        assert_rest(f, owners[i], before_ms, PATIENCE_MS);
    }
    fair_leave(f, D);
    fair_leave(f, C);
    fair_leave(f, B);
    fair_leave(f, A);
}

/* Each of Redisson's takes five minutes off all others when it is granted. */
static void a_deadline_outlives_redissons_waiters_before_it(void **state)
{
    struct fixture *f = *state;
    long long before_ms = fair_now(f);

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    fair_add_foreign(f, J1, REDISSON_MS);
    fair_add_foreign(f, J2, 2 * REDISSON_MS);
    assert_true(fair_lock(f, D, 1) > 0);
    fair_add_foreign(f, J3, 3 * REDISSON_MS); /* behind it: none of its business */
    for (int i = 0; i < 2; i++) {
        assert_rest(f, D, before_ms, 2 * REDISSON_MS + PATIENCE_MS);
        before_ms = fair_now(f);
        assert_true(fair_lock(f, D, 1) > 0);
    }
    fair_leave(f, A);
    fair_take_foreign(f, J1);
    fair_take_foreign(f, J2);
    assert_true(fair_trylock(f, A) > 0);
    assert_int_equal(fair_place(f, D), 0);
    assert_rest(f, D, before_ms, PATIENCE_MS);
    assert_int_equal(fair_lock(f, D, 1), GRANTED);
    fair_leave(f, J3);
    fair_leave(f, D);
}

/* It died behind one of Redisson's that nobody took off, for that was dropped as dead. */
static void a_dead_first_waiter_blocks_the_queue_for_a_minute_at_most(void **state)
{
    struct fixture *f = *state;
    long long before_ms;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    fair_add_foreign(f, J1, REDISSON_MS);
    assert_true(fair_lock(f, C, 1) > 0);
    fair_let_die(f, J1);
    before_ms = fair_now(f);
    assert_true(fair_lock(f, D, 1) > 0);
    assert_int_equal(fair_place(f, C), 0);
    assert_rest(f, C, before_ms, 60000);
    fair_leave(f, D);
    fair_leave(f, C);

    /* Another client's may ask less often than this one. */
    assert_true(fair_lock_with(f, LEASE_MS, C, 1, 3 * PATIENCE_MS) > 0);
    before_ms = fair_deadline(f, C);
    assert_true(fair_lock(f, D, 1) > 0);
    assert_int_equal(fair_deadline(f, C), before_ms);
    fair_leave(f, D);
    fair_leave(f, C);

    /* A waiter of Redisson's keeps the deadline that it chose. */
    fair_add_foreign(f, J1, REDISSON_MS);
    before_ms = fair_deadline(f, J1);
    assert_true(fair_lock(f, D, 1) > 0);
    assert_int_equal(fair_deadline(f, J1), before_ms);
    fair_leave(f, J1);
    fair_leave(f, D);
    fair_leave(f, A);
}

static void a_further_attempt_keeps_the_place_and_renews_the_deadline(void **state)
{
    static const char *const owners[] = {C, B};
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_true(fair_lock(f, C, 1) > 0);
    for (int i = 0; i < 2; i++) {
        long long before_ms = fair_now(f);

        fair_set_rest(f, owners[i], 5000);
        assert_true(fair_lock(f, owners[i], 1) > 0);
        assert_rest(f, owners[i], before_ms, PATIENCE_MS);
    }
    assert_int_equal(fair_place(f, B), 0);
    assert_int_equal(fair_place(f, C), 1);
    assert_int_equal(fair_length(f), 2);
    fair_leave(f, B);
    fair_leave(f, C);
    fair_leave(f, A);
}

/* A late waiter keeps its place while nobody has dropped it. */
static void a_waiter_that_retries_late_keeps_its_place(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_true(fair_lock(f, C, 1) > 0);
    fair_let_die(f, B);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_int_equal(fair_place(f, B), 0);
    fair_leave(f, A);
    fair_let_die(f, B);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    fair_leave(f, C);
    fair_leave(f, B);
}

static void dead_waiters_are_dropped_when_they_are_first(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    fair_add_foreign(f, B, -1);
    fair_add_foreign(f, C, 1);
    assert_int_equal(probe_int(f->probe, "ZREM " DEADLINES " " C), 1); /* none at all */
    assert_true(fair_lock(f, D, 1) > 0);
    assert_int_equal(fair_place(f, B), -1);
    assert_int_equal(fair_place(f, C), -1);
    assert_int_equal(fair_place(f, D), 0);
    assert_int_equal(fair_length(f), 1);
    fair_leave(f, A);
    fair_let_die(f, D);
    assert_int_equal(fair_trylock(f, B), GRANTED); /* a try drops them as well */
    fair_leave(f, B);
}

static void the_living_are_not_dropped(void **state)
{
    struct fixture *f = *state;

    fair_add_foreign(f, B, REDISSON_MS);
    fair_add_foreign(f, C, -1); /* dead, but not first: it is in nobody's way yet */
    assert_true(fair_trylock(f, D) > 0);
    assert_int_equal(fair_place(f, B), 0);
    assert_int_equal(fair_place(f, C), 1);
    fair_leave(f, C);
    fair_leave(f, B);
}

/* Redisson's waiters may keep a later deadline than they need: they allowed for our waiter. */
static void a_waiter_that_comes_and_goes_keeps_the_deadlines_of_others(void **state)
{
    struct fixture *f = *state;
    long long b_ms, d_ms;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    fair_add_foreign(f, B, REDISSON_MS);
    assert_true(fair_lock(f, C, 1) > 0);
    fair_add_foreign(f, D, 3 * REDISSON_MS);
    b_ms = fair_deadline(f, B);
    d_ms = fair_deadline(f, D);
    assert_int_equal(fair_unlock(f, C, 0), 1);
    assert_int_equal(fair_unlock(f, C, 0), -1);
    assert_int_equal(fair_place(f, C), -1);
    assert_int_equal(fair_place(f, D), 1);
    assert_int_equal(fair_length(f), 2);
    assert_int_equal(fair_deadline(f, B), b_ms);
    fair_leave(f, A);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_int_equal(fair_deadline(f, D), d_ms);
    fair_leave(f, D);
    fair_leave(f, B);
}

static void one_call_releases_hold_and_place(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    fair_add_foreign(f, A, REDISSON_MS);
    assert_int_equal(fair_unlock(f, A, 0), 1);
    assert_int_equal(probe_n_keys(f->probe), 0);

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    fair_add_foreign(f, A, REDISSON_MS);
    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_int_equal(probe_n_keys(f->probe), 1);
    fair_leave(f, A);
}

static void a_released_level_keeps_the_place_in_the_queue(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_int_equal(fair_unlock(f, B, 1), -1);
    assert_int_equal(fair_place(f, B), 0);
    fair_leave(f, B);
    fair_leave(f, A);
}

static void an_unused_queue_and_its_deadlines_expire(void **state)
{
    static const char *const keys[] = {QUEUE, DEADLINES};
    struct fixture *f = *state;
    long long rest_ms;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    fair_add_foreign(f, C, REDISSON_MS);
    assert_true(fair_lock(f, B, 1) > 0);
    rest_ms = fair_deadline(f, C) - fair_now(f);
    for (int i = 0; i < 2; i++)
        assert_in_range(probe_pttl(f->probe, keys[i]), rest_ms + 590000, rest_ms + 600100);

    /* Redisson's with a wait of Long.MAX_VALUE */
    assert_true(probe_int(f->probe, "ZADD " DEADLINES " 9223372036854775807 " C) >= 0);
    assert_true(fair_lock(f, D, 1) > 0);
    for (int i = 0; i < 2; i++)
        assert_true(probe_pttl(f->probe, keys[i]) > REDISSON_MS);
    fair_leave(f, A);
    fair_leave(f, B);
    assert_true(fair_trylock(f, A) > 0);
    fair_leave(f, C);
    fair_leave(f, D);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_deadline_is_the_patience_of_the_waiter_from_now),
        SERVER_TEST(a_deadline_outlives_redissons_waiters_before_it),
        SERVER_TEST(a_dead_first_waiter_blocks_the_queue_for_a_minute_at_most),
        SERVER_TEST(a_further_attempt_keeps_the_place_and_renews_the_deadline),
        SERVER_TEST(a_waiter_that_retries_late_keeps_its_place),
        SERVER_TEST(dead_waiters_are_dropped_when_they_are_first),
        SERVER_TEST(the_living_are_not_dropped),
        SERVER_TEST(a_waiter_that_comes_and_goes_keeps_the_deadlines_of_others),
        SERVER_TEST(one_call_releases_hold_and_place),
        SERVER_TEST(a_released_level_keeps_the_place_in_the_queue),
        SERVER_TEST(an_unused_queue_and_its_deadlines_expire),
    };

    return SERVER_TESTS_RUN(tests);
}
