/*
 * A spin lock: in Redis like a reentrant one, but its releases are not published, and waiters poll.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/listener.h"
#include "support/peer.h"
#include "support/traffic.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#define CHANNEL "redisson_lock__channel:{orders}"
#define N_THREADS 8
#define LONG_MS 60000 /* hand-off budget */
#define WAIT_MS 3000
#define LONGEST_PAUSE_MS 128
#define SLACK_MS 1000 /* a shared machine */

static struct relock_lock *spinlock(struct fixture *f, struct relock_client *client)
{
    return fixture_lock_of(f, client, "orders", relock_spinlock_new);
}

/* ---- nothing is published ------------------------------------------------------------------ */

/* All that a reentrant lock publishes for, or is subscribed for. Who waits in the same client is
 * first, for the hold is handed off to it. */
static void live_a_full_life(struct fixture *f)
{
    struct relock_client *one = fixture_client(f, &(struct relock_options){.handoff_ms = LONG_MS});
    struct relock_client *two = fixture_client(f, NULL);
    struct relock_lock *ours = spinlock(f, one), *theirs = spinlock(f, two);
    struct actor *near = actor_start(), *far = actor_start();

    assert_result(relock_lock(ours), RELOCK_OK);
    actor_begin_lock(near, ours);
    actor_begin_lock(far, theirs);
    assert_true(wait_for_waiters(one, 1));
    assert_true(wait_for_waiters(two, 1));
    assert_result(fixture_timedlock(theirs, 50), RELOCK_TIMEOUT);
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_gets_in(near, ours);
    assert_result(actor_result(far), RELOCK_OK);
    assert_result(relock_force_unlock(ours), RELOCK_OK);
    assert_result(actor_unlock(far, theirs), RELOCK_LOST);

    assert_result(actor_lock(near, ours), RELOCK_OK);
    actor_end(near);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_lock(theirs), RELOCK_OK);
    fixture_free_client(f, two);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

static void nobody_publishes_and_nobody_subscribes(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);
    long long published = probe_calls(f->probe, "publish");
    long long subscribed = probe_calls(f->probe, "subscribe");

    live_a_full_life(f);
    assert_int_equal(probe_calls(f->probe, "publish"), published);
    assert_int_equal(probe_calls(f->probe, "subscribe"), subscribed);
    assert_int_equal(probe_subscribers(f->probe, CHANNEL), 1);
    assert_true(listener_hears_nothing(listener, 5));
    listener_close(listener);
}

/* ---- exclusion ----------------------------------------------------------------------------- */

static void it_excludes_reentrant_locks_of_its_name(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *spin = spinlock(f, client);
    struct relock_lock *reentrant = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_lock(spin), RELOCK_OK);
    assert_result(relock_trylock(reentrant), RELOCK_BUSY);
    assert_false(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_result(relock_unlock(spin), RELOCK_OK);

    assert_result(relock_lock(reentrant), RELOCK_OK);
    assert_result(relock_trylock(spin), RELOCK_BUSY);
    assert_result(fixture_timedlock(spin, 30), RELOCK_TIMEOUT);
    assert_result(relock_unlock(reentrant), RELOCK_OK);
    assert_result(relock_timedlock(spin, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_result(relock_unlock(spin), RELOCK_OK);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* 35 ms on the average, so that 3 s are about 90 tries; of the longest pauses they are 23, and
 * half as many when a machine stands still for half of the time. */
static void assert_is_polled(long long n_tries)
{
    print_message("%d ms: %lld tries\n", WAIT_MS, n_tries);
    assert_true(n_tries <= WAIT_MS / 10);
    assert_true(n_tries >= WAIT_MS / (2 * LONGEST_PAUSE_MS * (long long)slow_ms(1)));
}

static void a_waiter_polls_every_1_to_128_ms(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = spinlock(f, client);
    long long before;

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    before = probe_script_calls(f->probe);
    assert_result(fixture_timedlock(lock, WAIT_MS), RELOCK_TIMEOUT);
    assert_is_polled(probe_script_calls(f->probe) - before);
    assert_int_equal(stats_of(client).wakes, 0);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_true(stats_of(client).waits > 0);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void many_waiters_in_one_process_poll_as_often_as_one(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = spinlock(f, fixture_client(f, NULL));
    struct actor *waiting[N_THREADS];
    long long before;

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    before = probe_script_calls(f->probe);
    for (int i = 0; i < N_THREADS; i++) {
        waiting[i] = actor_start();
        actor_begin_timedlock(waiting[i], lock, WAIT_MS);
    }
    for (int i = 0; i < N_THREADS; i++)
        assert_result(actor_result(waiting[i]), RELOCK_TIMEOUT);
    assert_is_polled(probe_script_calls(f->probe) - before);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

/* And not when a lease ends, or it would look again anyhow. */
static void a_waiter_finds_a_release_within_a_pause(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = spinlock(f, client);
    struct actor *waiting = actor_start();
    int n_soon = 0; /* of 5, for a machine may stand still now and then */

    for (int i = 0; i < 5; i++) {
        uint64_t released_ms;

        assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
        actor_begin_lock(waiting, lock);
        assert_true(wait_for_waiters(client, 1));
        let_pass(100);
        released_ms = now_ms();
        assert_true(peer_unlock(f->probe, "orders", PEER));
        assert_result(actor_result(waiting), RELOCK_OK);
        n_soon += now_ms() - released_ms <= LONGEST_PAUSE_MS + slow_ms(SLACK_MS);
        assert_result(actor_unlock(waiting, lock), RELOCK_OK);
    }
    assert_true(n_soon >= 3);
}

/* A pause must not make a wait longer than it may be. */
static void a_pause_ends_with_the_wait(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = spinlock(f, client);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *cancelled = actor_start(), *closed = actor_start();
    uint64_t began_ms;

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    began_ms = now_ms();
    assert_result(fixture_timedlock(lock, 300), RELOCK_TIMEOUT);
    assert_in_range(now_ms() - began_ms, 300 - 1, slow_ms(SOON_MS));

    actor_begin_acquire(cancelled, lock, &how);
    actor_begin_lock(closed, lock);
    assert_true(wait_for_waiters(client, 2));
    let_pass(200); /* the pauses are long by now */
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(cancelled), RELOCK_CANCELLED);
    assert_true(actor_is_busy(closed));
    relock_client_shutdown(client);
    assert_result(actor_result(closed), RELOCK_E_CLOSED);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    relock_cancel_free(how.cancel);
}

/* ---- turns --------------------------------------------------------------------------------- */

static void a_hold_is_handed_off_inside_the_process(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = LONG_MS});
    struct relock_lock *lock = spinlock(f, client);
    struct actor *waiting[3];
    char field[128];
    long long counts_set;

    assert_result(relock_lock(lock), RELOCK_OK);
    snprintf(field, sizeof(field), "%s", probe_only_field(f->probe, "orders"));
    for (int i = 0; i < 3; i++) {
        waiting[i] = actor_start();
        actor_begin_lock(waiting[i], lock);
        assert_true(wait_for_waiters(client, (uint64_t)i + 1));
    }
    counts_set = probe_calls(f->probe, "hset"); /* by whoever takes or releases a level */
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < 3; i++) {
        assert_result(actor_result(waiting[i]), RELOCK_OK);
        assert_string_equal(probe_only_field(f->probe, "orders"), field);
        assert_int_equal(probe_calls(f->probe, "hset"), counts_set);
        assert_result(actor_unlock(waiting[i], lock), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).passed_on, 3);
    assert_int_equal(stats_of(client).acquired, 1);
}

/* Takes the lock and says when it had it. */
static int lock_at_ms(void *lock)
{
    return relock_lock(lock) == RELOCK_OK ? (int)(now_ms() % INT_MAX) : -1;
}

/* Nobody here knows who else wants it. */
static void a_lock_that_was_not_handed_off_is_free_for_a_moment(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &(struct relock_options){.handoff_ms = 1});
    struct relock_lock *lock = spinlock(f, client);
    struct actor *waiting = actor_start();

    for (int round = 0; round < 10; round++) {
        int released_ms;

        assert_result(relock_lock(lock), RELOCK_OK);
        actor_begin(waiting, lock_at_ms, lock);
        assert_true(wait_for_waiters(client, 1));
        let_pass(2); /* its turn */
        released_ms = (int)(now_ms() % INT_MAX);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_true(actor_result(waiting) > released_ms); /* 2 ms, less what is rounded */
        assert_result(actor_unlock(waiting, lock), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).passed_on, 0);
}

/* Eight threads here never leave the lock alone, and nothing tells the other when it is free. */
static void another_process_gets_its_turns(void **state)
{
    struct fixture *f = *state;
    struct relock_client *busy = fixture_client(f, NULL);
    struct traffic traffic;
    struct relock_lock *theirs = spinlock(f, fixture_client(f, NULL));

    traffic_begin(&traffic, busy, spinlock(f, busy));
    for (int i = 0; i < 10; i++) {
        let_pass(50); /* those over there are at it again */
        assert_result(relock_timedlock(theirs, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
        assert_result(relock_unlock(theirs), RELOCK_OK);
    }
    traffic_end(&traffic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(nobody_publishes_and_nobody_subscribes),
        SERVER_TEST(it_excludes_reentrant_locks_of_its_name),
        SERVER_TEST(a_waiter_polls_every_1_to_128_ms),
        SERVER_TEST(many_waiters_in_one_process_poll_as_often_as_one),
        SERVER_TEST(a_waiter_finds_a_release_within_a_pause),
        SERVER_TEST(a_pause_ends_with_the_wait),
        SERVER_TEST(a_hold_is_handed_off_inside_the_process),
        SERVER_TEST(a_lock_that_was_not_handed_off_is_free_for_a_moment),
        SERVER_TEST(another_process_gets_its_turns),
    };

    return SERVER_TESTS_RUN(tests);
}
