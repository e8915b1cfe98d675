/* Fair locks: in the order of arrival, over threads, clients and processes. */
#include "support/actor.h"
#include "support/child.h"
#include "support/fair_queue.h"

#include <stdlib.h>

#define N_WAITERS 6
#define N_CHILDREN 3
#define ABSENT "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:41"

/* ---- the order ----------------------------------------------------------------------------- */

static void the_lock_goes_in_order_of_arrival_among_clients(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[2] = {woken_client(f), woken_client(f)};
    struct relock_lock *locks[2] = {fair_handle(f, clients[0]), fair_handle(f, clients[1])};
    struct actor *actors[N_WAITERS];

    assert_result(relock_lock(locks[0]), RELOCK_OK);
    for (int i = 0; i < N_WAITERS; i++) {
        actors[i] = actor_start();
        fair_queue_begin(f, actors[i], locks[(i / 2) % 2], i + 1);
    }
    assert_result(relock_unlock(locks[0]), RELOCK_OK);
    for (int i = 0; i < N_WAITERS; i++) {
        assert_result(actor_result(actors[i]), RELOCK_OK);
        for (int j = i + 1; j < N_WAITERS; j++)
            assert_true(actor_is_busy(actors[j]));
        assert_result(actor_unlock(actors[i], locks[(i / 2) % 2]), RELOCK_OK);
    }
    assert_int_equal(stats_of(clients[0]).rechecks + stats_of(clients[1]).rechecks, 0);
    assert_int_equal(stats_of(clients[0]).passed_on + stats_of(clients[1]).passed_on, 0);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* Not even in the same client. */
static void a_holder_that_releases_and_retries_is_last(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fair_handle(f, client);
    struct actor *actors[2] = {actor_start(), actor_start()};

    assert_result(actor_lock(actors[0], lock), RELOCK_OK);
    for (int turn = 0; turn < 20; turn++) {
        struct actor *has = actors[turn % 2], *wants = actors[(turn + 1) % 2];

        fair_queue_begin(f, wants, lock, 1);
        assert_result(actor_unlock(has, lock), RELOCK_OK);
        assert_result(actor_trylock(has, lock), RELOCK_BUSY);
        assert_result(actor_result(wants), RELOCK_OK);
    }
    assert_result(actor_unlock(actors[0], lock), RELOCK_OK);
}

/* Waits, reports that it holds the lock, and releases it, each step on order. */
static int wait_in_turn(struct child *parent, void *arg)
{
    struct relock_client *client;
    struct relock_lock *lock;

    child_must(child_await(parent));
    client = child_client(arg, &(struct relock_options){.recheck_ms = NEVER_MS});
    child_must(relock_fairlock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(child_send(parent, 1));
    child_must(child_await(parent));
    child_must(relock_unlock(lock) == RELOCK_OK);
    child_must(relock_unlock(lock) == RELOCK_OK);
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

static void the_lock_goes_in_order_of_arrival_among_processes(void **state)
{
    struct fixture *f = *state;
    struct child *children[N_CHILDREN];
    struct relock_lock *lock;

    for (int i = 0; i < N_CHILDREN; i++)
        children[i] = child_start(wait_in_turn, f);
    lock = fair_handle(f, woken_client(f));
    assert_result(relock_lock(lock), RELOCK_OK);
    for (int i = 0; i < N_CHILDREN; i++) {
        assert_true(child_send(children[i], 0));
        assert_true(fair_queue_wait(f, i + 1));
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < N_CHILDREN; i++) {
        int64_t number;

        assert_true(child_await(children[i]));
        for (int j = i + 1; j < N_CHILDREN; j++)
            assert_false(child_receive_within(children[j], &number, 20));
        assert_result(relock_trylock(lock), RELOCK_BUSY);
        assert_true(child_send(children[i], 0));
        assert_int_equal(child_wait(children[i], SOON_MS), EXIT_SUCCESS);
    }
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- nobody barges ------------------------------------------------------------------------- */

static void a_try_does_not_overtake_the_first_waiter(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, woken_client(f));

    fair_queue_add_dead(f, ABSENT, NEVER_MS); /* the lock is free */
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_result(fixture_timedlock(lock, 0), RELOCK_TIMEOUT);
    assert_result(fixture_timedlock(lock, 30), RELOCK_TIMEOUT);
    assert_true(fair_queue_wait(f, 1));
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    fair_queue_remove(f, ABSENT);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Another level is not another place, and a released level ends no turn. */
static void the_holder_nests_though_others_wait(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fair_handle(f, client);
    struct actor *waiting = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    fair_queue_begin(f, waiting, lock, 1);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_timedlock(lock, SOON_MS), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 4);
    assert_true(fair_queue_wait(f, 1));
    for (int i = 0; i < 3; i++)
        assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(actor_is_busy(waiting));
    assert_int_equal(stats_of(client).wakes, 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting, lock);
}

/* A waiter that retries often and out of turn is refused each time. If it asks when the other has
 * been told to come, the other has its patience to do so: a long one, so that it is not dropped. */
static void retrying_more_often_gains_no_place(void **state)
{
    struct fixture *f = *state;
    struct relock_options often = {.recheck_ms = 20};
    struct relock_lock *slow = fair_handle(f, woken_client(f));
    struct relock_lock *quick = fair_handle(f, fixture_client(f, &often));
    struct actor *first = actor_start(), *second = actor_start();

    assert_result(relock_fairlock_set_patience(quick, NEVER_MS), RELOCK_OK);
    for (int i = 0; i < 10; i++) {
        assert_result(relock_lock(slow), RELOCK_OK);
        fair_queue_begin(f, first, slow, 1);
        fair_queue_begin(f, second, quick, 2);
        assert_result(relock_unlock(slow), RELOCK_OK);
        assert_result(actor_result(first), RELOCK_OK);
        assert_true(actor_is_busy(second));
        assert_result(actor_unlock(first, slow), RELOCK_OK);
        assert_gets_in(second, quick);
    }
}

/* ---- several owners and names -------------------------------------------------------------- */

/* The thread gets the lock first, and the other thread of that owner adds a level. */
static void a_thread_that_acts_for_an_owner_shares_its_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fair_handle(f, client);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *thread = actor_start(), *other = actor_start();

    assert_result(actor_acquire(thread, lock, &how), RELOCK_OK);
    how.owner = actor_grant(thread).owner;
    assert_result(actor_unlock(thread, lock), RELOCK_OK);

    assert_result(relock_lock(lock), RELOCK_OK);
    fair_queue_begin(f, thread, lock, 1);
    actor_begin_acquire(other, lock, &how);
    assert_true(fair_queue_wait(f, 2));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(thread), RELOCK_OK);
    assert_result(actor_result(other), RELOCK_OK);
    assert_int_equal(actor_grant(other).hold_count, 2);
    assert_true(fair_queue_wait(f, 0));
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
}

static void each_name_has_a_queue_of_its_own(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *orders = fair_handle(f, client);
    struct relock_lock *ledger = fixture_lock_of(f, client, "{a}:b", relock_fairlock_new);
    struct actor *first = actor_start(), *second = actor_start();

    assert_result(relock_lock(orders), RELOCK_OK);
    assert_result(relock_lock(ledger), RELOCK_OK);
    fair_queue_begin(f, first, orders, 1);
    actor_begin_lock(second, ledger);
    assert_true(wait_for_waiters(client, 2));
    assert_result(relock_unlock(ledger), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_true(actor_is_busy(first));
    assert_result(actor_unlock(second, ledger), RELOCK_OK);
    assert_result(relock_unlock(orders), RELOCK_OK);
    assert_gets_in(first, orders);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(the_lock_goes_in_order_of_arrival_among_clients),
        SERVER_TEST(a_holder_that_releases_and_retries_is_last),
        SERVER_TEST(the_lock_goes_in_order_of_arrival_among_processes),
        SERVER_TEST(a_try_does_not_overtake_the_first_waiter),
        SERVER_TEST(the_holder_nests_though_others_wait),
        SERVER_TEST(retrying_more_often_gains_no_place),
        SERVER_TEST(a_thread_that_acts_for_an_owner_shares_its_hold),
        SERVER_TEST(each_name_has_a_queue_of_its_own),
    };

    return SERVER_TESTS_RUN(tests);
}
