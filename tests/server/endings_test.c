/* Threads that end, clients that are freed, and handles that outlive them. */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/listener.h"
#include "support/peer.h"

#include <stdlib.h>

#define N_HANDLES 3

static void a_thread_that_ends_releases_all_its_holds(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *orders = fixture_lock(f, client, "orders");
    struct relock_lock *ledger = fixture_lock(f, client, "ledger");
    struct actor *careless = actor_start();

    assert_result(actor_lock(careless, orders), RELOCK_OK);
    assert_result(actor_lock(careless, orders), RELOCK_OK);
    assert_result(actor_lock(careless, ledger), RELOCK_OK);
    actor_end(careless);

    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_true(probe_wait_no_key(f->probe, "ledger", SOON_MS));
    assert_true(log_wait(f->log, "orders", SOON_MS));
    assert_true(log_wait(f->log, "ledger", SOON_MS));
    assert_true(log_count_grave(f->log, RELOCK_LOG_WARNING) > 0);
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_lock(orders), RELOCK_OK);
    assert_result(relock_unlock(orders), RELOCK_OK);
}

static void freeing_a_client_releases_its_holds(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *orders = fixture_lock(f, client, "orders");
    struct relock_lock *ledger = fixture_lock(f, client, "ledger");
    struct listener *listener = listener_open(f->server->socket, "redisson_lock__channel:{orders}");
    struct relock_how how = {.owner = relock_owner_new(), .lease_ms = 60000};

    assert_result(relock_lock(orders), RELOCK_OK);
    assert_result(relock_lock(orders), RELOCK_OK);
    assert_result(relock_acquire(ledger, &how, NULL), RELOCK_OK);
    fixture_free_client(f, client);

    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_int_equal(losses_count(f->losses), 0);
    listener_close(listener);
}

static void freeing_a_client_ends_its_waits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *orders = fixture_lock(f, client, "orders");
    struct relock_lock *held = fixture_lock(f, client, "held");
    struct actor *waiting[4];

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < 4; i++) {
        waiting[i] = actor_start();
        actor_begin_lock(waiting[i], i % 2 ? orders : held);
    }
    assert_true(wait_for_waiters(client, 4));

    fixture_free_client(f, client);
    assert_results(waiting, 4, RELOCK_E_CLOSED);
    assert_int_equal(probe_int(f->probe, "EXISTS held"), 0);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void a_handle_that_outlives_its_client_returns_closed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_holder holder;
    struct relock_grant grant = {.hold_count = 7};
    unsigned count;
    int64_t ttl_ms;
    bool locked;

    assert_result(relock_lock(lock), RELOCK_OK);
    fixture_free_client(f, client);

    assert_result(relock_lock(lock), RELOCK_E_CLOSED);
    assert_result(relock_trylock(lock), RELOCK_E_CLOSED);
    assert_result(relock_timedlock(lock, 10), RELOCK_E_CLOSED);
    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_E_CLOSED);
    assert_int_equal(grant.hold_count, 0);
    assert_result(relock_unlock(lock), RELOCK_E_CLOSED);
    assert_result(relock_release(lock, 1), RELOCK_E_CLOSED);
    assert_result(relock_extend(lock, 0, 1000), RELOCK_E_CLOSED);
    assert_result(relock_force_unlock(lock), RELOCK_E_CLOSED);
    assert_result(relock_who_holds(lock, &holder), RELOCK_E_CLOSED);
    assert_result(relock_is_locked(lock, &locked), RELOCK_E_CLOSED);
    assert_result(relock_hold_count(lock, &count), RELOCK_E_CLOSED);
    assert_result(relock_ttl_ms(lock, &ttl_ms), RELOCK_E_CLOSED);
    assert_result(relock_check(lock, 0, &grant), RELOCK_E_CLOSED);
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_false(relock_is_mine(lock));
    assert_string_equal(relock_lock_name(lock), "orders");
}

static void frees_go_in_any_order(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = fixture_options(f, NULL);

    for (int order = 0; order < 3; order++) {
        struct relock_client *client;
        struct relock_lock *one, *two;

        assert_result(relock_client_new(&options, &client), RELOCK_OK);
        assert_result(relock_lock_new(client, "orders", &one), RELOCK_OK);
        assert_result(relock_lock_new(client, "orders", &two), RELOCK_OK);
        assert_result(relock_lock(one), RELOCK_OK);
        if (order == 0)
            client = relock_client_free(client);
        one = relock_lock_free(one);
        if (order == 1)
            client = relock_client_free(client);
        two = relock_lock_free(two);
        client = relock_client_free(client);
        assert_int_equal(probe_n_keys(f->probe), 0);
    }
}

static void handles_of_a_name_are_made_and_freed_in_any_order(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *orders[N_HANDLES];

    for (size_t i = 0; i < N_HANDLES; i++)
        assert_result(relock_lock_new(client, "orders", &orders[i]), RELOCK_OK);
    for (size_t i = 0; i < 16; i++) {
        size_t freed = i * 5 % N_HANDLES;
        size_t other = (freed + 1) % N_HANDLES;

        assert_result(relock_lock(orders[freed]), RELOCK_OK);
        relock_lock_free(orders[freed]);
        assert_string_equal(relock_lock_name(orders[other]), "orders");
        assert_result(relock_lock_new(client, "orders", &orders[freed]), RELOCK_OK);
        for (size_t j = 0; j < N_HANDLES; j++)
            assert_true(j == freed || orders[j] != orders[freed]);
        assert_result(relock_unlock(orders[i % 2 == 0 ? freed : other]), RELOCK_OK);
    }
    for (size_t i = 0; i < N_HANDLES; i++)
        relock_lock_free(orders[i]);
}

static void freeing_the_last_handle_of_a_held_name_warns_and_releases_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    fixture_free_lock(f, lock);
    assert_true(log_wait(f->log, "orders", SOON_MS));
    assert_true(log_count_grave(f->log, RELOCK_LOG_WARNING) > 0);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);

    lock = fixture_lock(f, client, "orders");
    assert_true(relock_is_mine(lock));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Without that limit, it could wait for as long as the lease. */
static void freeing_a_client_does_not_wait_longer_than_a_command_may_take(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.command_timeout_ms = slow_ms(300)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t began_ms;

    assert_result(fixture_acquire(lock, &(struct relock_how){.lease_ms = slow_ms(8000)}),
                  RELOCK_OK);
    server_pause(f->server);
    began_ms = now_ms();
    fixture_free_client(f, client);
    assert_no_later(now_ms() - began_ms, slow_ms(300 + 5000));
    server_resume(f->server);
    probe_int(f->probe, "DEL orders"); /* unless the release still reached the server */
}

static int leave_without_freeing(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_client *client = child_client(f, NULL);
    struct relock_lock *lock;

    (void)parent;
    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    return EXIT_SUCCESS;
}

static void a_process_that_frees_nothing_leaves_its_holds_to_their_leases(void **state)
{
    struct fixture *f = *state;
    struct child *child = child_start(leave_without_freeing, f);

    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_in_range(probe_pttl(f->probe, "orders"), 1, 30000);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_thread_that_ends_releases_all_its_holds),
        SERVER_TEST(freeing_a_client_releases_its_holds),
        SERVER_TEST(freeing_a_client_ends_its_waits),
        SERVER_TEST(a_handle_that_outlives_its_client_returns_closed),
        SERVER_TEST(frees_go_in_any_order),
        SERVER_TEST(handles_of_a_name_are_made_and_freed_in_any_order),
        SERVER_TEST(freeing_the_last_handle_of_a_held_name_warns_and_releases_nothing),
        SERVER_TEST(freeing_a_client_does_not_wait_longer_than_a_command_may_take),
        SERVER_TEST(a_process_that_frees_nothing_leaves_its_holds_to_their_leases),
    };

    return SERVER_TESTS_RUN(tests);
}
