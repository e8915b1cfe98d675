/* The queue of the fair lock: who stands in it until when, and who leaves it: scripts/fair_*.lua.
 */
#include "fair.h"

#include "support/listener.h"

/* The deadline of `owner` is `rest_ms` after a moment between `before_ms` and now. */
static void assert_rest(struct fixture *f, const char *owner, long long before_ms,
                        long long rest_ms)
{
    long long deadline_ms = fair_deadline(f, owner);

    assert_in_range(deadline_ms, before_ms + rest_ms, fair_now(f) + rest_ms);
}

static void leave(struct fixture *f, const char *owner)
{
    assert_true(fair_unlock(f, owner, 0) > 0);
}

/* A sign of life: what lies before the waiter, and how long, has no part in it. */
static void a_deadline_is_the_patience_of_the_waiter_from_now(void **state)
{
    static const char *const owners[] = {B, C, "late:1"};
    struct fixture *f = *state;

    assert_int_equal(fair_lock_with(f, 100 * LEASE_MS, A, 1, PATIENCE_MS), GRANTED);
    for (int i = 0; i < 3; i++) {
        long long before_ms = fair_now(f);

        if (i == 2)
            fair_add_foreign(f, D, REDISSON_MS);
        assert_true(fair_lock(f, owners[i], 1) > 0);
        assert_rest(f, owners[i], before_ms, PATIENCE_MS);
    }
    leave(f, "late:1");
    leave(f, D);
    leave(f, C);
    leave(f, B);
    leave(f, A);
}

/* The last may have run out already, or have no deadline: nobody begins in the past. */
static void who_comes_behind_one_that_is_late_has_its_whole_patience(void **state)
{
    struct fixture *f = *state;
    long long before_ms;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    fair_add_foreign(f, B, REDISSON_MS);
    fair_add_foreign(f, C, -5000);
    for (int i = 0; i < 2; i++) {
        before_ms = fair_now(f);
        assert_true(fair_lock(f, D, 1) > 0);
        assert_int_equal(fair_place(f, D), 2);
        assert_rest(f, D, before_ms, PATIENCE_MS);
        leave(f, D);
        assert_int_equal(probe_int(f->probe, "ZREM " DEADLINES " " C), 1 - i);
    }
    leave(f, C);
    leave(f, B);
    leave(f, A);
}

static void a_question_keeps_the_place_and_renews_the_deadline(void **state)
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
    leave(f, B);
    leave(f, C);
    leave(f, A);
}

static void a_question_never_lowers_a_deadline(void **state)
{
    struct fixture *f = *state;
    long long b_ms, c_ms;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_true(fair_lock(f, C, 1) > 0);
    fair_set_rest(f, B, REDISSON_MS);
    fair_set_rest(f, C, 2 * PATIENCE_MS);
    b_ms = fair_deadline(f, B);
    c_ms = fair_deadline(f, C);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_true(fair_lock(f, C, 1) > 0);
    assert_int_equal(fair_deadline(f, B), b_ms);
    assert_int_equal(fair_deadline(f, C), c_ms);
    leave(f, B);
    leave(f, C);
    leave(f, A);
}

/* It has its place, for nobody took it: it need not go to the end for being late. */
static void who_asks_is_alive_however_late(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_true(fair_lock(f, C, 1) > 0);
    fair_let_die(f, B);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_int_equal(fair_place(f, B), 0);
    leave(f, A);
    fair_let_die(f, B);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    leave(f, C);
    leave(f, B);
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
    leave(f, A);
    fair_let_die(f, D);
    assert_int_equal(fair_trylock(f, B), GRANTED); /* a try drops them as well */
    leave(f, B);
}

static void the_living_are_not_dropped(void **state)
{
    struct fixture *f = *state;

    fair_add_foreign(f, B, REDISSON_MS);
    fair_add_foreign(f, C, -1); /* dead, but not first: it is in nobody's way yet */
    assert_true(fair_trylock(f, D) > 0);
    assert_int_equal(fair_place(f, B), 0);
    assert_int_equal(fair_place(f, C), 1);
    leave(f, C);
    leave(f, B);
}

static void the_new_first_is_told_when_a_dead_one_was_in_its_way(void **state)
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
    leave(f, A);
    assert_true(listener_hears(next, "0", SOON_MS));
    assert_int_equal(probe_int(f->probe, "LREM " QUEUE " 0 " B), 1);
    assert_int_equal(probe_int(f->probe, "LPUSH " QUEUE " " B), 3);
    fair_let_die(f, B);
    assert_true(fair_trylock(f, A) > 0);
    assert_true(listener_hears(next, "0", SOON_MS));
    assert_true(fair_trylock(f, A) > 0); /* once is enough */
    assert_true(listener_hears_nothing(next, 20));
    leave(f, D);
    leave(f, C);
    listener_close(next);
}

/* Redisson's rule, to the digit, for all that are not close to being late by it. */
static void a_grant_takes_the_patience_of_the_new_owner_off_all_others(void **state)
{
    struct fixture *f = *state;
    long long c_ms, d_ms;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    fair_add_foreign(f, C, LEASE_MS + PATIENCE_MS + REDISSON_MS);
    fair_add_foreign(f, D, LEASE_MS + PATIENCE_MS + 2 * REDISSON_MS);
    c_ms = fair_deadline(f, C);
    d_ms = fair_deadline(f, D);
    leave(f, A);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_int_equal(fair_lock(f, B, 1), GRANTED); /* once */
    assert_int_equal(fair_lock(f, B, 2), GRANTED);
    assert_int_equal(fair_deadline(f, C), c_ms - PATIENCE_MS);
    assert_int_equal(fair_deadline(f, D), d_ms - PATIENCE_MS);
    leave(f, D);
    leave(f, C);
    leave(f, B);
}

static void who_leaves_takes_its_patience_off_those_behind(void **state)
{
    struct fixture *f = *state;
    long long b_ms, d_ms;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    fair_add_foreign(f, B, LEASE_MS + REDISSON_MS);
    assert_true(fair_lock(f, C, 1) > 0);
    fair_add_foreign(f, D, LEASE_MS + PATIENCE_MS + 2 * REDISSON_MS);
    b_ms = fair_deadline(f, B);
    d_ms = fair_deadline(f, D);
    assert_int_equal(fair_unlock(f, C, 0), 1);
    assert_int_equal(fair_unlock(f, C, 0), -1);
    assert_int_equal(fair_place(f, C), -1);
    assert_int_equal(fair_place(f, D), 1);
    assert_int_equal(fair_length(f), 2);
    assert_int_equal(fair_deadline(f, B), b_ms);
    assert_int_equal(fair_deadline(f, D), d_ms - PATIENCE_MS);
    leave(f, D);
    leave(f, B);
    leave(f, A);
}

/* Those who ask again and again have just their patience left: a grant must not make them late. */
static void nobody_alive_is_made_late_by_those_before(void **state)
{
    struct fixture *f = *state;
    long long d_ms;

    fair_add_foreign(f, B, PATIENCE_MS);
    fair_add_foreign(f, C, PATIENCE_MS);
    fair_add_foreign(f, D, PATIENCE_MS);
    d_ms = fair_deadline(f, D);
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    assert_int_equal(fair_unlock(f, C, 0), 1);
    assert_int_equal(fair_deadline(f, D), d_ms);
    leave(f, D);
    leave(f, B);
}

static void the_next_is_told_when_the_first_leaves_a_free_lock(void **state)
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

    fair_add_foreign(f, B, REDISSON_MS);
    fair_add_foreign(f, D, REDISSON_MS);
    assert_int_equal(fair_unlock(f, B, 0), 1); /* C holds it: nobody is told */
    assert_true(listener_hears_nothing(last, 20));
    leave(f, D);
    leave(f, C);
    listener_close(first);
    listener_close(last);
    listener_close(next);
}

/* A granted call whose answer was lost: the settling finds a hold, or a place, or nothing. */
static void one_call_gives_up_hold_and_place(void **state)
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
    leave(f, A);
}

static void a_level_less_is_no_reason_to_leave_the_queue(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    assert_int_equal(fair_unlock(f, B, 1), -1);
    assert_int_equal(fair_place(f, B), 0);
    leave(f, B);
    leave(f, A);
}

static void queue_and_deadlines_go_when_nobody_uses_them(void **state)
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
    leave(f, A);
    leave(f, B);
    assert_true(fair_trylock(f, A) > 0);
    leave(f, C);
    leave(f, D);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_deadline_is_the_patience_of_the_waiter_from_now),
        SERVER_TEST(who_comes_behind_one_that_is_late_has_its_whole_patience),
        SERVER_TEST(a_question_keeps_the_place_and_renews_the_deadline),
        SERVER_TEST(a_question_never_lowers_a_deadline),
        SERVER_TEST(who_asks_is_alive_however_late),
        SERVER_TEST(dead_waiters_are_dropped_when_they_are_first),
        SERVER_TEST(the_living_are_not_dropped),
        SERVER_TEST(the_new_first_is_told_when_a_dead_one_was_in_its_way),
        SERVER_TEST(a_grant_takes_the_patience_of_the_new_owner_off_all_others),
        SERVER_TEST(who_leaves_takes_its_patience_off_those_behind),
        SERVER_TEST(nobody_alive_is_made_late_by_those_before),
        SERVER_TEST(the_next_is_told_when_the_first_leaves_a_free_lock),
        SERVER_TEST(one_call_gives_up_hold_and_place),
        SERVER_TEST(a_level_less_is_no_reason_to_leave_the_queue),
        SERVER_TEST(queue_and_deadlines_go_when_nobody_uses_them),
    };

    return SERVER_TESTS_RUN(tests);
}
