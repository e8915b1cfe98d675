/*
 * Locks that poll: nobody publishes their releases, so a waiter retries after each pause. Spin
 * locks always do, and plain locks because other programs do not publish, unless Redis reports
 * changes (watched_test.c). An announced plain lock also listens, and polls as often, for the same
 * programs.
 */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/listener.h"
#include "support/peer.h"

#define CHANNEL "redisson_lock__channel:{orders}"
#define N_THREADS 8
#define LONG_MS 60000 /* hand-off budget */
#define WAIT_MS 2000
#define LONGEST_PAUSE_MS 128
#define SLACK_MS 1000 /* a shared machine */

/* ---- the variants -------------------------------------------------------------------------- */

/* Waiters for plain locks poll if Redis does not report changes. */
#define ALL_FLAGS RELOCK_NO_TRACKING

static unsigned flags = ALL_FLAGS; /* of all clients of the case */

static int kinds_begin_announced(void **state)
{
    flags = ALL_FLAGS | RELOCK_ANNOUNCE_PLAIN;
    return kinds_begin_plain(state);
}

static int end(void **state)
{
    flags = ALL_FLAGS;
    return fixture_end(state);
}

#define POLLING_TEST(function, variant)                                     \
    {                                                                       \
#variant ": " #function, function, kinds_begin_##variant, end, NULL \
    }

static struct relock_client *new_client(struct fixture *f)
{
    return fixture_client(f, &(struct relock_options){.flags = flags,
                                                      .handoff_ms = LONG_MS,
                                                      .recheck_ms = 2 * (uint64_t)SOON_MS});
}

/* ---- pauses -------------------------------------------------------------------------------- */

/* A pause is 35 ms on average: 2 s are about 60 tries. The longest pauses would make 16 tries, and
 * half as many on a machine that stands still for half of the time. */
static void assert_polled(long long n_tries)
{
    print_message("%d ms: %lld tries\n", WAIT_MS, n_tries);
    assert_true(n_tries <= WAIT_MS / 10);
    assert_true(n_tries >= WAIT_MS / (2 * LONGEST_PAUSE_MS * (long long)slow_ms(1)));
}

static void a_waiter_polls_every_1_to_128_ms(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = new_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    long long before;

    assert_true(kind_peer_lock(f, "orders"));
    before = probe_script_calls(f->probe);
    assert_result(fixture_timedlock(lock, WAIT_MS), RELOCK_TIMEOUT);
    assert_polled(probe_script_calls(f->probe) - before);
    assert_int_equal(stats_of(client).wakes, 0);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_true(stats_of(client).waits > 0);
    assert_true(kind_peer_unlock(f, "orders"));
}

static void many_waiters_in_one_process_poll_as_often_as_one(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, new_client(f), "orders");
    struct actor *waiting[N_THREADS];
    long long before;

    assert_true(kind_peer_lock(f, "orders"));
    before = probe_script_calls(f->probe);
    for (int i = 0; i < N_THREADS; i++) {
        waiting[i] = actor_start();
        actor_begin_timedlock(waiting[i], lock, WAIT_MS);
    }
    assert_results(waiting, N_THREADS, RELOCK_TIMEOUT);
    assert_polled(probe_script_calls(f->probe) - before);
    assert_true(kind_peer_unlock(f, "orders"));
}

/* With the default pauses it would try at least 15 times. */
static void a_program_can_set_the_pauses(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, new_client(f), "orders");
    long long before;

    assert_result(relock_spinlock_set_pauses(lock, WAIT_MS / 3, WAIT_MS / 3), RELOCK_OK);
    assert_true(kind_peer_lock(f, "orders"));
    before = probe_script_calls(f->probe);
    assert_result(fixture_timedlock(lock, WAIT_MS), RELOCK_TIMEOUT);
    assert_in_range(probe_script_calls(f->probe) - before, 1, 5);
    assert_true(kind_peer_unlock(f, "orders"));
}

static void pauses_that_make_no_sense_are_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = new_client(f);
    struct relock_lock *lock = fixture_lock_of(f, client, "orders", relock_spinlock_new);
    struct relock_lock *other = fixture_lock(f, client, "bills");

    assert_result(relock_spinlock_set_pauses(lock, 0, 10), RELOCK_E_INVALID);
    assert_result(relock_spinlock_set_pauses(lock, 11, 10), RELOCK_E_INVALID);
    assert_result(relock_spinlock_set_pauses(lock, 1, 3600001), RELOCK_E_INVALID);
    assert_result(relock_spinlock_set_pauses(NULL, 1, 10), RELOCK_E_INVALID);
    assert_result(relock_spinlock_set_pauses(other, 1, 10), RELOCK_E_UNSUPPORTED);
    assert_result(relock_spinlock_set_pauses(lock, 3600000, 3600000), RELOCK_OK);
}

/* Three of five, because a machine may stand still now and then. No lease and no recheck ends so
 * soon. */
static void a_waiter_finds_a_release_within_a_pause(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = new_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = actor_start();
    int n_soon = 0;

    for (int i = 0; i < 5; i++) {
        uint64_t released_ms;

        assert_true(kind_peer_lock(f, "orders"));
        actor_begin_lock(waiting, lock);
        assert_true(wait_for_waiters(client, 1));
        let_pass(100);
        released_ms = now_ms();
        assert_true(kind_peer_unlock(f, "orders"));
        assert_result(actor_result(waiting), RELOCK_OK);
        n_soon += actor_ended_ms(waiting) - released_ms <= LONGEST_PAUSE_MS + slow_ms(SLACK_MS);
        assert_result(actor_unlock(waiting, lock), RELOCK_OK);
    }
    assert_true(n_soon >= 3);
}

/* ---- no messages --------------------------------------------------------------------------- */

/* Everything for which a reentrant lock publishes or subscribes. The waiter of the same client is
 * first: the hold is handed off to it. */
static void use_in_every_way(struct fixture *f)
{
    struct relock_client *one = new_client(f), *two = new_client(f);
    struct relock_lock *ours = kind_lock(f, one, "orders"), *theirs = kind_lock(f, two, "orders");
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

    use_in_every_way(f);
    assert_int_equal(probe_calls(f->probe, "publish"), published);
    assert_int_equal(probe_calls(f->probe, "subscribe"), subscribed);
    assert_int_equal(probe_subscribers(f->probe, CHANNEL), 1);
    assert_true(listener_hears_nothing(listener, 5));
    listener_close(listener);
}

/* ---- exclusion ----------------------------------------------------------------------------- */

static void a_spin_lock_and_a_reentrant_lock_of_one_name_exclude_each_other(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *spin = fixture_lock_of(f, client, "orders", relock_spinlock_new);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        POLLING_TEST(a_waiter_polls_every_1_to_128_ms, spin),
        POLLING_TEST(a_waiter_polls_every_1_to_128_ms, plain),
        POLLING_TEST(a_waiter_polls_every_1_to_128_ms, announced),
        POLLING_TEST(many_waiters_in_one_process_poll_as_often_as_one, spin),
        POLLING_TEST(many_waiters_in_one_process_poll_as_often_as_one, announced),
        POLLING_TEST(a_program_can_set_the_pauses, spin),
        POLLING_TEST(a_program_can_set_the_pauses, plain),
        SERVER_TEST(pauses_that_make_no_sense_are_refused),
        POLLING_TEST(a_waiter_finds_a_release_within_a_pause, spin),
        POLLING_TEST(a_waiter_finds_a_release_within_a_pause, plain),
        POLLING_TEST(a_waiter_finds_a_release_within_a_pause, announced),
        POLLING_TEST(nobody_publishes_and_nobody_subscribes, spin),
        POLLING_TEST(nobody_publishes_and_nobody_subscribes, plain),
        SERVER_TEST(a_spin_lock_and_a_reentrant_lock_of_one_name_exclude_each_other),
    };

    return SERVER_TESTS_RUN(tests);
}
