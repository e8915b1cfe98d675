/* A client that is shut down drains: no new hold begins, and present holds go on. */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"

#define LEASE_MS 2000 /* outlives a second in which a machine stands still */

static void nesting_extending_and_releasing_go_on_after_shutdown(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    relock_client_shutdown(client);
    relock_client_shutdown(client); /* does nothing */

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 3);
    assert_result(relock_extend(lock, 0, 60000), RELOCK_OK);
    assert_true(relock_is_mine(lock));
    for (int level = 0; level < 3; level++)
        assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
}

static void a_first_level_is_refused_after_shutdown_though_the_lock_is_free(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *free_one = fixture_lock(f, client, "free");
    struct relock_lock *held = fixture_lock(f, client, "held");
    struct relock_lock *taken = fixture_lock(f, client, "taken");
    struct actor *other = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    assert_true(peer_lock(f->probe, "taken", PEER, PEER_LEASE_MS));
    relock_client_shutdown(client);

    assert_result(relock_lock(free_one), RELOCK_E_CLOSED);
    assert_result(relock_trylock(free_one), RELOCK_E_CLOSED);
    assert_result(relock_timedlock(free_one, 100), RELOCK_E_CLOSED);
    assert_result(relock_acquire(free_one, NULL, NULL), RELOCK_E_CLOSED);
    assert_result(relock_lock(taken), RELOCK_E_CLOSED);
    assert_result(actor_lock(other, held), RELOCK_E_CLOSED);
    assert_result(actor_trylock(other, held), RELOCK_E_CLOSED);
    assert_int_equal(probe_int(f->probe, "EXISTS free"), 0);

    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(relock_lock(held), RELOCK_E_CLOSED);
    assert_true(peer_unlock(f->probe, "taken", PEER));
}

static void a_shutdown_ends_all_waits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting[3];

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    actors_begin_lock(waiting, 3, lock);
    assert_true(wait_for_waiters(client, 3));

    relock_client_shutdown(client);
    assert_results(waiting, 3, RELOCK_E_CLOSED);
    assert_int_equal(stats_of(client).waiters, 0);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void renewals_go_on_after_shutdown(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t until_ms = deadline_in(LEASE_MS * 5 / 4);

    assert_result(relock_lock(lock), RELOCK_OK);
    relock_client_shutdown(client);
    while (now_ms() < until_ms) {
        assert_true(probe_pttl(f->probe, "orders") > 0);
        let_pass(10);
    }
    assert_true(relock_is_mine(lock));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void queries_work_after_a_shutdown(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *late;
    struct relock_holder holder;
    bool locked;

    relock_client_shutdown(client);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_false(locked);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_result(relock_lock_new(client, "late", &late), RELOCK_OK);
    assert_result(relock_lock(late), RELOCK_E_CLOSED);
    relock_lock_free(late);
}

/* The lock stays held while its client drains, and its release wakes waiters as ever. */
static void another_client_gets_the_lock_when_the_holder_is_done(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *next = woken_client(f);
    struct relock_lock *ours = fixture_lock(f, client, "orders");
    struct relock_lock *theirs = fixture_lock(f, next, "orders");
    struct actor *other = actor_start();

    assert_result(relock_lock(ours), RELOCK_OK);
    actor_begin_lock(other, theirs);
    assert_true(wait_for_waiters(next, 1));
    relock_client_shutdown(client);
    assert_true(actor_is_busy(other));
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_gets_in(other, theirs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(nesting_extending_and_releasing_go_on_after_shutdown),
        SERVER_TEST(a_first_level_is_refused_after_shutdown_though_the_lock_is_free),
        SERVER_TEST(a_shutdown_ends_all_waits),
        SERVER_TEST(renewals_go_on_after_shutdown),
        SERVER_TEST(queries_work_after_a_shutdown),
        SERVER_TEST(another_client_gets_the_lock_when_the_holder_is_done),
    };

    return SERVER_TESTS_RUN(tests);
}
