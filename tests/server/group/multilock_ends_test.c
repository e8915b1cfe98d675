/* Multi locks: clients, handles, threads and processes that end while one is taken or held. */
#include "support/actor.h"
#include "support/child.h"
#include "support/multi.h"

#include <stdlib.h>

/* Outlives a second in which a machine stands still. */
#define LEASE_MS 2000

/* ---- clients ------------------------------------------------------------------------------- */

static void freeing_its_client_releases_the_members_everywhere(void **state)
{
    struct fixture *f = *state;
    struct spread s = spread_of(f, NULL);
    struct relock_how named = {.owner = relock_owner_new()};
    struct relock_lock *two =
        fixture_multi(f, fixture_lock(f, s.clients[0], "x"), s.locks[1], NULL);
    struct actor *other = actor_start();

    assert_result(relock_acquire(s.all, &named, NULL), RELOCK_OK);
    assert_result(relock_acquire(s.all, &named, NULL), RELOCK_OK);
    assert_result(relock_acquire(two, &named, NULL), RELOCK_OK);
    assert_result(relock_acquire(s.locks[2], &named, NULL), RELOCK_OK);
    fixture_free_client(f, s.clients[0]);

    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_true(probe_wait_no_key(beside_probe(0), "b", SOON_MS));
    assert_result(relock_check(s.all, named.owner, NULL), RELOCK_E_CLOSED);
    assert_result(relock_release(s.all, named.owner), RELOCK_E_CLOSED);
    assert_int_equal(losses_count(f->losses), 0);

    /* The owner's separate level of a member stays. */
    assert_result(relock_check(s.locks[2], named.owner, NULL), RELOCK_OK);
    assert_result(actor_trylock(other, s.locks[2]), RELOCK_BUSY);
    assert_result(relock_release(s.locks[2], named.owner), RELOCK_OK);
    assert_int_equal(probe_n_keys(beside_probe(1)), 0);
}

static void freeing_its_client_ends_a_lost_multi_lock_too(void **state)
{
    struct fixture *f = *state;
    struct spread s =
        spread_of(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});

    assert_result(relock_lock(s.all), RELOCK_OK);
    assert_int_equal(probe_int(beside_probe(0), "DEL b"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    fixture_free_client(f, s.clients[0]);
    assert_true(probe_wait_no_key(beside_probe(1), "c", SOON_MS));
    assert_result(relock_check(s.locks[2], 0, NULL), RELOCK_NOT_OWNER);
    assert_int_equal(losses_count(f->losses), 1);
}

/* Acquires and releases until its clients are gone. */
static int go_on_to_the_end(void *arg)
{
    struct relock_lock *lock = arg;
    int r;

    do {
        r = relock_timedlock(lock, SOON_MS);
        if (r == RELOCK_OK)
            (void)relock_check(lock, 0, NULL);
        if (r == RELOCK_OK || r == RELOCK_LOST)
            r = relock_unlock(lock);
    } while (r == RELOCK_OK || r == RELOCK_LOST);
    return r;
}

static int free_client(void *arg)
{
    relock_client_free(arg);
    return RELOCK_OK;
}

/* Both at once, while their locks are acquired, awaited, checked and released. */
static void clients_are_freed_at_any_moment(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = fixture_options(f, NULL);
    struct actor *busy[3], *freeing[2];

    for (int i = 0; i < 3; i++)
        busy[i] = actor_start();
    for (int i = 0; i < 2; i++)
        freeing[i] = actor_start();
    for (unsigned round = 0; round < 20; round++) {
        struct relock_client *clients[2];
        struct relock_lock *locks[2];
        struct relock_lock *both;

        for (size_t i = 0; i < 2; i++) {
            assert_result(relock_client_new(&options, &clients[i]), RELOCK_OK);
            assert_result(relock_lock_new(clients[i], spread_names[i], &locks[i]), RELOCK_OK);
        }
        assert_result(relock_multilock_new(locks, 2, &both), RELOCK_OK);
        for (int i = 0; i < 3; i++)
            actor_begin(busy[i], go_on_to_the_end, both);
        let_pass(round % 5);
        for (size_t i = 0; i < 2; i++)
            actor_begin(freeing[i], free_client, clients[(i + round) % 2]);
        assert_results(freeing, 2, RELOCK_OK);
        assert_results(busy, 3, RELOCK_E_CLOSED);
        assert_int_equal(probe_n_keys(f->probe), 0);
        for (size_t i = 0; i < 2; i++)
            relock_lock_free(locks[i]);
        relock_lock_free(both);
    }
}

/* ---- handles ------------------------------------------------------------------------------- */

static void handles_are_freed_in_any_order_also_while_it_is_held(void **state)
{
    struct fixture *f = *state;

    for (int order = 0; order < 4; order++) {
        struct spread s = spread_of(f, NULL);
        struct relock_lock *again = NULL;

        assert_result(relock_lock(s.all), RELOCK_OK);
        for (int i = 0; i < 3 && order != 1; i++)
            fixture_free_lock(f, s.locks[i]);
        if (order == 0 || order == 2) {
            assert_result(relock_unlock(s.all), RELOCK_OK);
            fixture_free_lock(f, s.all);
        }
        if (order == 1) {
            /* Another handle of the same members releases it. */
            fixture_free_lock(f, s.all);
            assert_true(log_wait_n(f->log, "last handle", 1, SOON_MS));
            again = fixture_multi(f, s.locks[1], s.locks[0], s.locks[2], NULL);
            assert_result(relock_check(again, 0, NULL), RELOCK_NOT_OWNER);
            fixture_free_lock(f, again);
            again = fixture_multi(f, s.locks[0], s.locks[2], s.locks[1], NULL);
            assert_result(relock_unlock(again), RELOCK_OK);
        }
        for (int i = 0; i < 3; i++)
            fixture_free_client(f, s.clients[order == 2 ? 2 - i : i]);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(probe_n_keys(spread_probe(f, i)), 0);
    }
}

/* ---- threads and processes ----------------------------------------------------------------- */

static void a_thread_that_ends_releases_its_multi_lock(void **state)
{
    struct fixture *f = *state;
    struct spread s = spread_of(f, NULL);
    struct actor *careless = actor_start();

    assert_result(actor_lock(careless, s.all), RELOCK_OK);
    assert_result(actor_lock(careless, s.all), RELOCK_OK);
    actor_end(careless);
    for (size_t i = 0; i < 3; i++)
        assert_true(probe_wait_no_key(spread_probe(f, i), spread_names[i], SOON_MS));
    assert_true(log_wait(f->log, "thread that ended", SOON_MS));
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_timedlock(s.all, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(s.all), RELOCK_OK);
}

static int use_in_child(struct child *parent, void *arg)
{
    struct spread *s = arg;
    struct relock_grant grant = {.hold_count = 7};
    struct relock_lock *lock;

    (void)parent;
    child_must(relock_lock(s->all) == RELOCK_E_FORKED);
    child_must(relock_acquire(s->all, NULL, &grant) == RELOCK_E_FORKED);
    child_must(grant.hold_count == 0 && grant.failed_member);
    child_must(relock_check(s->all, 0, &grant) == RELOCK_E_FORKED);
    child_must(relock_extend(s->all, 0, 1000) == RELOCK_E_FORKED);
    child_must(relock_unlock(s->all) == RELOCK_E_FORKED);
    child_must(relock_multilock_new(s->locks, 3, &lock) == RELOCK_E_FORKED);
    child_must(relock_lock_free(s->all) == NULL);
    for (int i = 0; i < 3; i++) {
        child_must(relock_lock_free(s->locks[i]) == NULL);
        child_must(relock_client_free(s->clients[i]) == NULL);
    }
    return EXIT_SUCCESS;
}

static void a_forked_child_leaves_the_lock_alone(void **state)
{
    struct fixture *f = *state;
    struct spread s = spread_of(f, NULL);

    assert_result(relock_lock(s.all), RELOCK_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(child_wait(child_start(use_in_child, &s), SOON_MS), EXIT_SUCCESS);
    assert_true(relock_is_mine(s.all));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(probe_only_value(spread_probe(f, i), spread_names[i]), 1);
    assert_result(relock_unlock(s.all), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MULTI_TEST(freeing_its_client_releases_the_members_everywhere),
        MULTI_TEST(freeing_its_client_ends_a_lost_multi_lock_too),
        MULTI_TEST(clients_are_freed_at_any_moment),
        MULTI_TEST(handles_are_freed_in_any_order_also_while_it_is_held),
        MULTI_TEST(a_thread_that_ends_releases_its_multi_lock),
        MULTI_TEST(a_forked_child_leaves_the_lock_alone),
    };
    return MULTI_TESTS_RUN(tests);
}
