/*
 * The queue of the fair lock: waiters that listen to their channels, and those that are gone
 * because they do not any more: scripts/fair_*.lua, docs/wire.md#fair.
 *
 * A and B are of one client, C and D of another.
 */
#include "fair_scripts.h"

#include "support/listener.h"

#include <stdio.h>

static struct listener *listen_to(struct fixture *f, const char *channel)
{
    return listener_open(f->server->socket, channel);
}

/* Joins as one that listens, whether it does or not. */
static void join(struct fixture *f, const char *owner)
{
    long long n;

    assert_true(fair_listen(f, owner, &n) >= 0);
}

static bool gets_it(struct fixture *f, const char *owner)
{
    long long n;

    return fair_listen(f, owner, &n) == GRANTED;
}

/* ---- the gone ------------------------------------------------------------------------------ */

static void passes_over_the_gone(struct fixture *f, bool by_force)
{
    struct listener *next = listen_to(f, CHANNEL_OF(D));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    join(f, C);
    join(f, D);
    if (by_force)
        assert_int_equal(fair_force_unlock(f, A), 1);
    else
        assert_int_equal(fair_unlock(f, A, 0), 2);
    assert_true(listener_hears(next, "0", SOON_MS));
    assert_int_equal(fair_place(f, C), 0);
    fair_leave(f, C);
    assert_true(gets_it(f, D));
    fair_leave(f, D);
    listener_close(next);
}

static void a_release_passes_over_the_gone(void **state)
{
    passes_over_the_gone(*state, false);
}

static void a_forced_release_passes_over_the_gone(void **state)
{
    passes_over_the_gone(*state, true);
}

/* The lease has ended, so no script has told anybody. */
static void an_attempt_passes_over_the_gone(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    join(f, C);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(fair_lock(f, B, 1), 1000); /* not at once */
    assert_int_equal(fair_lock(f, B, 1), GRANTED);
    fair_leave(f, B);
    assert_int_equal(fair_trylock(f, A), GRANTED);
    assert_int_equal(fair_place(f, C), 0);
    fair_leave(f, C);
    fair_leave(f, A);
}

/* It was cut off, and has subscribed again. */
static void a_waiter_that_was_passed_over_keeps_its_place(void **state)
{
    struct fixture *f = *state;
    struct listener *gone;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    join(f, C);
    join(f, B);
    fair_leave(f, A);
    assert_true(gets_it(f, B));
    gone = listen_to(f, CHANNEL_OF(C));
    join(f, C);
    assert_true(fair_lock(f, A, 1) > 0);
    fair_leave(f, B);
    assert_true(listener_hears(gone, "0", SOON_MS));
    assert_true(fair_lock(f, A, 1) > 0);
    assert_true(gets_it(f, C));
    fair_leave(f, C);
    fair_leave(f, A);
    listener_close(gone);
}

/* Its SUBSCRIBE may be in flight. */
static void a_waiter_that_never_listened_is_not_passed_over(void **state)
{
    struct fixture *f = *state;
    struct listener *next = listen_to(f, CHANNEL_OF(B));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, C, 1) > 0);
    join(f, B);
    assert_int_equal(fair_unlock(f, A, 0), 1);
    assert_true(listener_hears_nothing(next, 20));
    assert_false(gets_it(f, B));
    assert_int_equal(fair_trylock(f, A), 100);
    assert_int_equal(fair_lock(f, C, 1), GRANTED);
    fair_leave(f, C);
    fair_leave(f, B);
    listener_close(next);
}

/* Its client lives, or it would not call: only the subscription is broken. */
static void a_waiter_of_the_callers_client_is_not_passed_over(void **state)
{
    struct fixture *f = *state;
    struct listener *next = listen_to(f, CHANNEL_OF(D));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    join(f, C);
    join(f, D);
    fair_leave(f, A);
    assert_false(gets_it(f, D));
    assert_true(gets_it(f, C));
    join(f, B);
    assert_true(fair_place(f, B) == 1);
    fair_leave(f, D);
    fair_leave(f, B);
    fair_leave(f, C);
    listener_close(next);
}

static void a_release_does_not_pass_over_waiters_of_its_client(void **state)
{
    struct fixture *f = *state;
    struct listener *next = listen_to(f, CHANNEL_OF(C));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    join(f, B);
    join(f, C);
    assert_int_equal(fair_unlock(f, A, 0), 1);
    assert_true(listener_hears_nothing(next, 20));
    fair_leave(f, B);
    assert_true(listener_hears(next, "0", SOON_MS));
    fair_leave(f, C);
    listener_close(next);
}

/* The first was gone, so the second was told. */
static void a_waiter_that_leaves_a_free_lock_tells_the_next(void **state)
{
    struct fixture *f = *state;
    struct listener *second = listen_to(f, CHANNEL_OF(B)), *third = listen_to(f, CHANNEL_OF(D));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    join(f, C);
    join(f, B);
    join(f, D);
    fair_leave(f, A);
    assert_true(listener_hears(second, "0", SOON_MS));
    assert_true(listener_hears_nothing(third, 20));
    fair_leave(f, B);
    assert_true(listener_hears(third, "0", SOON_MS));
    fair_leave(f, D);
    fair_leave(f, C);
    listener_close(second);
    listener_close(third);
}

/* ---- deadlines ----------------------------------------------------------------------------- */

/* C waits behind B, which leaves: its deadline is later than the first needs. */
static void become_first(struct fixture *f)
{
    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    join(f, C);
    assert_true(fair_deadline(f, C) > fair_now(f) + PATIENCE_MS);
    fair_leave(f, B);
}

/* It may be stopped: it has as long as any waiter that does not listen. */
static void a_waiter_that_is_to_come_has_no_more_than_its_patience(void **state)
{
    struct fixture *f = *state;
    struct listener *first = listen_to(f, CHANNEL_OF(C));

    become_first(f);
    assert_true(fair_deadline(f, C) > fair_now(f) + PATIENCE_MS);
    assert_int_equal(fair_unlock(f, A, 0), 2);
    assert_in_range(fair_deadline(f, C), fair_now(f), fair_now(f) + PATIENCE_MS);
    join(f, B);
    assert_in_range(fair_listen(f, B, &(long long){0}), 1, 1000);
    fair_let_die(f, C);
    assert_true(gets_it(f, B));
    fair_leave(f, B);
    listener_close(first);
}

static void a_waiter_that_is_gone_has_no_more_than_its_patience(void **state)
{
    struct fixture *f = *state;

    become_first(f);
    assert_in_range(fair_deadline(f, C), fair_now(f), fair_now(f) + PATIENCE_MS);
    fair_leave(f, A);
    fair_leave(f, C);
}

/* A waiter behind the first of a held lock has time for as many intervals. */
static void a_waiter_that_listens_may_retry_the_less_often_the_more_are_before_it(void **state)
{
    struct fixture *f = *state;
    char owner[64];

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    for (int i = 1; i <= 25; i++) {
        long long n, before_ms = fair_now(f), most = i < 20 ? i : 20;

        snprintf(owner, sizeof(owner), "%.36s:%d", B, 1000000100 + i);
        assert_in_range(fair_listen(f, owner, &n), 1, LEASE_MS + 100 * (i - 1));
        assert_int_equal(n, most);
        assert_in_range(fair_deadline(f, owner), before_ms + most * PATIENCE_MS,
                        fair_now(f) + most * PATIENCE_MS);
    }
    assert_int_equal(probe_int(f->probe, "DEL " QUEUE " " DEADLINES), 2);
    fair_leave(f, A);
}

/* Redisson's waiters tell nobody when they acquire the lock. */
static void a_waiter_behind_redissons_retries_as_often_as_ever(void **state)
{
    struct fixture *f = *state;
    long long n;

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    fair_add_foreign(f, J1, REDISSON_MS);
    fair_add_foreign(f, J2, REDISSON_MS);
    assert_true(fair_listen(f, C, &n) > 0);
    assert_int_equal(n, 1);
    fair_leave(f, J1);
    fair_leave(f, J2);
    fair_leave(f, C);
    fair_leave(f, A);
}

/* ---- the holder's lease -------------------------------------------------------------------- */

static void a_new_first_waiter_is_told_for_how_long_the_lock_is_held(void **state)
{
    struct fixture *f = *state;
    struct listener *first = listen_to(f, CHANNEL_OF(C));

    assert_int_equal(fair_lock(f, A, 1), GRANTED);
    assert_true(fair_lock(f, B, 1) > 0);
    join(f, C);
    assert_int_equal(probe_int(f->probe, "PERSIST orders"), 1);
    fair_leave(f, B);
    assert_true(listener_hears(first, "held -1", SOON_MS));
    fair_leave(f, C);
    fair_leave(f, A);
    listener_close(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_release_passes_over_the_gone),
        SERVER_TEST(a_forced_release_passes_over_the_gone),
        SERVER_TEST(an_attempt_passes_over_the_gone),
        SERVER_TEST(a_waiter_that_was_passed_over_keeps_its_place),
        SERVER_TEST(a_waiter_that_never_listened_is_not_passed_over),
        SERVER_TEST(a_waiter_of_the_callers_client_is_not_passed_over),
        SERVER_TEST(a_release_does_not_pass_over_waiters_of_its_client),
        SERVER_TEST(a_waiter_that_leaves_a_free_lock_tells_the_next),
        SERVER_TEST(a_waiter_that_is_to_come_has_no_more_than_its_patience),
        SERVER_TEST(a_waiter_that_is_gone_has_no_more_than_its_patience),
        SERVER_TEST(a_waiter_that_listens_may_retry_the_less_often_the_more_are_before_it),
        SERVER_TEST(a_waiter_behind_redissons_retries_as_often_as_ever),
        SERVER_TEST(a_new_first_waiter_is_told_for_how_long_the_lock_is_held),
    };

    return SERVER_TESTS_RUN(tests);
}
