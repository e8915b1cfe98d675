/* Releases that do not wait for the answer (RELOCK_DEFER_RELEASES). */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/kinds.h"
#include "support/log.h"
#include "support/losses.h"
#include "support/probe.h"
#include "support/stats.h"
#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUNDS 300
#define MANY 100

static const struct relock_options deferring = {.flags = RELOCK_DEFER_RELEASES};

/* Holds are not looked at, so nothing but a release notices a loss. */
static const struct relock_options untracked = {.flags =
                                                    RELOCK_DEFER_RELEASES | RELOCK_NO_TRACKING};

static void a_deferred_release_frees_the_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &deferring);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).deferred, 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).deferred, 1);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_int_equal(stats_of(client).holds, 0);
}

static void without_the_flag_a_release_waits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_int_equal(stats_of(client).deferred, 0);
}

static void no_try_meets_the_release_before_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &deferring);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    for (int i = 0; i < ROUNDS; i++) {
        assert_result(relock_trylock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).deferred, ROUNDS);
}

static void no_try_of_another_thread_meets_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &deferring);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *other = actor_start();

    for (int i = 0; i < ROUNDS / 10; i++) {
        assert_result(relock_trylock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_result(actor_trylock(other, lock), RELOCK_OK);
        assert_result(actor_unlock(other, lock), RELOCK_OK);
    }
}

static void no_query_overtakes_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &deferring);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    bool is_locked;

    for (int i = 0; i < ROUNDS / 10; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_result(relock_is_locked(lock, &is_locked), RELOCK_OK);
        assert_false(is_locked);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_result(relock_force_unlock_held(lock, &is_locked), RELOCK_OK);
        assert_false(is_locked);
    }
}

/* So many wait for no answer over one lane. */
static void many_locks_are_released_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = deferring;
    struct relock_lock *locks[MANY];
    struct relock_client *client;

    options.connections = 1;
    client = fixture_client(f, &options);
    for (int i = 0; i < MANY; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "lock %d", i);
        assert_result(relock_lock_new(client, name, &locks[i]), RELOCK_OK);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
    for (int i = 0; i < MANY; i++) {
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
        locks[i] = relock_lock_free(locks[i]); /* before its answer */
    }
    assert_true(wait_for_no_keys(f->probe));
    assert_int_equal(stats_of(client).lost, 0);
}

/* ---- losses -------------------------------------------------------------------------------- */

static bool has_found_it(void *client)
{
    return stats_of(client).deferred_lost == 1;
}

static void a_loss_is_logged_and_counted_and_not_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &untracked);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(acquire_for(lock, 60000), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(wait_until(has_found_it, client, SOON_MS));
    assert_true(log_wait(f->log, ": lost before its deferred release: ", SOON_MS));
    assert_int_equal(stats_of(client).lost, 1);
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(log_count(f->log, "deferred release"), 1);
}

static void a_loss_that_is_known_is_the_result(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &deferring);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(acquire_for(lock, 50), RELOCK_OK);
    let_pass(60);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(stats_of(client).deferred, 0);
}

/* ---- waiters ------------------------------------------------------------------------------- */

static bool has_waiter(void *client)
{
    return stats_of(client).waiters == 1;
}

/* It is told at once, as without the flag. */
static void nothing_is_deferred_if_a_thread_waits(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = deferring;
    struct relock_lock *lock;
    struct relock_client *client;
    struct actor *waiting = actor_start();

    options.handoff_ms = 1; /* it goes through Redis */
    client = fixture_client(f, &options);
    lock = kind_lock(f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    assert_true(wait_until(has_waiter, client, SOON_MS));
    let_pass(2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).deferred, 0);
    assert_gets_in(waiting, lock);
}

static void a_waiter_elsewhere_gets_the_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &deferring);
    struct relock_client *others = woken_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, others, "orders");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, theirs);
    assert_true(wait_until(has_waiter, others, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).deferred, 1);
    assert_gets_in(waiting, theirs);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void a_client_is_freed_after_the_answer(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &deferring);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    fixture_free_client(f, client);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
}

static int release_and_end(struct child *parent, void *arg)
{
    struct relock_client *client = child_client(arg, &deferring);
    struct relock_lock *lock = NULL;

    (void)parent;
    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(relock_unlock(lock) == RELOCK_OK);
    _exit(0);
}

/* Here the release is in the socket when the call returns, and the system delivers it. */
static void the_release_outlives_the_process(void **state)
{
    struct fixture *f = *state;
    struct child *child = child_start(release_and_end, f);

    assert_int_equal(child_wait(child, SOON_MS), 0);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

static int release_in_child(struct child *parent, void *lock)
{
    (void)parent;
    return relock_unlock(lock) == RELOCK_E_FORKED ? 0 : 1;
}

static void a_forked_child_releases_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &deferring);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *held = fixture_lock(f, client, "held");
    struct child *child;

    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    child = child_start(release_in_child, held);
    assert_int_equal(child_wait(child, SOON_MS), 0);
    assert_int_equal(probe_int(f->probe, "EXISTS held"), 1);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(held), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_deferred_release_frees_the_lock),
        SERVER_TEST(without_the_flag_a_release_waits),
        KINDS_TEST(no_try_meets_the_release_before_it),
        SEMAPHORE_TEST(no_try_meets_the_release_before_it),
        KINDS_TEST(no_try_of_another_thread_meets_it),
        SEMAPHORE_TEST(no_try_of_another_thread_meets_it),
        SERVER_TEST(no_query_overtakes_it),
        SERVER_TEST(many_locks_are_released_one_after_the_other),
        KINDS_TEST(a_loss_is_logged_and_counted_and_not_reported),
        SERVER_TEST(a_loss_that_is_known_is_the_result),
        KINDS_TEST(nothing_is_deferred_if_a_thread_waits),
        SEMAPHORE_TEST(nothing_is_deferred_if_a_thread_waits),
        KINDS_TEST(a_waiter_elsewhere_gets_the_lock),
        SEMAPHORE_TEST(a_waiter_elsewhere_gets_the_lock),
        KINDS_TEST(a_client_is_freed_after_the_answer),
        SERVER_TEST(the_release_outlives_the_process),
        SERVER_TEST(a_forked_child_releases_nothing),
    };

    return SERVER_TESTS_RUN(tests);
}
