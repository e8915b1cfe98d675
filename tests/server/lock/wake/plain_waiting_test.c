/*
 * Plain locks with RELOCK_ANNOUNCE_PLAIN, whose releases are published, and the turns of other
 * programs, which do not publish: their waiters and ours poll (polling_test.c).
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/listener.h"
#include "support/plain_peer.h"
#include "support/traffic.h"

#define CHANNEL "redisson_lock__channel:{orders}"
#define LEASE_MS 30000

static struct relock_client *silent(struct fixture *f)
{
    return fixture_client(f, NULL);
}

static struct relock_client *announcing(struct fixture *f)
{
    return fixture_client(f, &(struct relock_options){.flags = RELOCK_ANNOUNCE_PLAIN});
}

/* ---- announcing ---------------------------------------------------------------------------- */

static void each_last_release_is_announced_once(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = announcing(f);
    struct relock_lock *lock = plain_handle(f, client);
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears_nothing(listener, 20));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(listener, "0", SOON_MS));

    assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, LEASE_MS));
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_result(relock_lock(lock), RELOCK_OK);
    fixture_free_client(f, client);
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_true(listener_hears_nothing(listener, 20));
    listener_close(listener);
}

/* By then its pauses are 35 ms on average, so most messages arrive before the next try; on a slow
 * machine, some do. Its own messages arrive, too, but not in that moment. */
static void a_listening_waiter_is_woken_by_a_release(void **state)
{
    enum { N = 10 };
    struct fixture *f = *state;
    struct relock_client *client = announcing(f);
    struct relock_lock *ours = plain_handle(f, client), *theirs = plain_handle(f, announcing(f));
    struct actor *waiting = actor_start();
    int n_woken = 0;

    for (int i = 0; i < N; i++) {
        uint64_t wakes;

        assert_result(relock_lock(theirs), RELOCK_OK);
        actor_begin_lock(waiting, ours);
        assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
        let_pass(100);
        wakes = stats_of(client).wakes;
        assert_result(relock_unlock(theirs), RELOCK_OK);
        assert_result(actor_result(waiting), RELOCK_OK);
        n_woken += stats_of(client).wakes > wakes;
        assert_result(actor_unlock(waiting, ours), RELOCK_OK);
    }
    print_message("%d of %d were woken\n", n_woken, N);
    assert_true(n_woken > 0);
}

static void an_announced_and_an_unannounced_lock_exclude_each_other(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *loud = plain_handle(f, announcing(f)), *quiet = plain_handle(f, silent(f));
    struct actor *waiting = actor_start();

    for (int round = 0; round < 2; round++) {
        struct relock_lock *ours = round == 0 ? loud : quiet, *theirs = round == 0 ? quiet : loud;

        assert_result(relock_lock(ours), RELOCK_OK);
        assert_result(relock_trylock(theirs), RELOCK_BUSY);
        actor_begin_lock(waiting, theirs);
        let_pass(50);
        assert_true(actor_is_busy(waiting));
        assert_result(relock_unlock(ours), RELOCK_OK);
        assert_gets_in(waiting, theirs);
    }
}

/* ---- turns --------------------------------------------------------------------------------- */

static bool stranger_takes_it(void *probe)
{
    return plain_peer_lock(probe, "orders", PLAIN_PEER, LEASE_MS);
}

/* Eight threads here never leave the lock alone, and a stranger has only its polling. */
static void a_stranger_gets_its_turns(struct fixture *f, struct relock_client *client)
{
    struct traffic traffic;

    traffic_begin(&traffic, client, plain_handle(f, client));
    for (int i = 0; i < 5; i++) {
        uint64_t began_ms;

        let_pass(50); /* the threads are taking turns again */
        began_ms = now_ms();
        assert_true(wait_until(stranger_takes_it, f->probe, SOON_MS));
        print_message("a turn after %d ms\n", (int)(now_ms() - began_ms));
        assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    }
    traffic_end(&traffic);
}

static void a_stranger_gets_its_turns_from_threads_that_hand_off(void **state)
{
    struct fixture *f = *state;

    a_stranger_gets_its_turns(f, silent(f));
}

static void a_stranger_gets_its_turns_from_threads_that_listen(void **state)
{
    struct fixture *f = *state;

    a_stranger_gets_its_turns(f, announcing(f));
}

/* With a fixed lease it is not handed off, and each release goes through Redis. */
static void a_listening_lock_is_free_for_a_moment_after_its_release(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = announcing(f);
    struct relock_lock *lock = plain_handle(f, client);
    struct relock_how fixed = {.wait_ms = RELOCK_FOREVER, .lease_ms = LEASE_MS};
    struct actor *waiting = actor_start();

    assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, LEASE_MS));
    actor_begin_acquire(waiting, lock, &fixed);
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    assert_gets_in(waiting, lock);
    traffic_assert_pauses(client, lock, &fixed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(each_last_release_is_announced_once),
        SERVER_TEST(a_listening_waiter_is_woken_by_a_release),
        SERVER_TEST(an_announced_and_an_unannounced_lock_exclude_each_other),
        SERVER_TEST(a_stranger_gets_its_turns_from_threads_that_hand_off),
        SERVER_TEST(a_stranger_gets_its_turns_from_threads_that_listen),
        SERVER_TEST(a_listening_lock_is_free_for_a_moment_after_its_release),
    };

    return SERVER_TESTS_RUN(tests);
}
