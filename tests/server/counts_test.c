/* The number of commands, counted by Redis: none is sent twice. */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"

#include <stdio.h>

#define N_PAIRS 100
#define N_THREADS 8
#define N_ROUNDS 100
#define N_LOCKS 40
#define N_CLIENTS 6
#define VERIFY_MS 5    /* how often a hold is verified while it is handed off */
#define LINGER_MS 1000 /* how long a subscription stays that no waiter needs */

static long long evalshas(struct fixture *f)
{
    return probe_calls(f->probe, "evalsha");
}

/* All commands so far, without those that a new connection sends about itself, and without the
 * pings sent while a call waits. */
static long long commands(struct fixture *f)
{
    return probe_commands(f->probe) - probe_calls(f->probe, "client") -
           probe_calls(f->probe, "client|info") - probe_calls(f->probe, "ping");
}

struct expected {
    struct fixture *f;
    long long (*count)(struct fixture *f);
    long long n;
};

static bool has_come(void *arg)
{
    struct expected *expected = arg;

    return expected->count(expected->f) >= expected->n;
}

/* Waits until so many have come, and then a while to see whether more come. */
static void assert_counts_to(struct fixture *f, long long (*count)(struct fixture *f), long long n)
{
    assert_true(wait_until(has_come, &(struct expected){f, count, n}, SOON_MS));
    let_pass(slow_ms(300));
    assert_int_equal(count(f), n);
}

static void take_and_give_often(struct relock_lock *lock)
{
    for (int i = 0; i < N_PAIRS; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

static void a_pair_is_two_commands_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    long long before;

    take_and_give_often(lock); /* the client has sent the commands that it sends once */
    before = commands(f);
    take_and_give_often(lock);
    assert_int_equal(commands(f) - before, 2 * N_PAIRS);
}

static void a_level_is_two_commands_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    long long before;

    take_and_give_often(lock);
    assert_result(relock_lock(lock), RELOCK_OK);
    before = commands(f);
    take_and_give_often(lock);
    assert_int_equal(commands(f) - before, 2 * N_PAIRS);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static int lock_many_times(void *arg)
{
    for (int i = 0; i < N_ROUNDS; i++) {
        int r = relock_lock(arg);

        if (r == RELOCK_OK)
            r = relock_unlock(arg);
        if (r != RELOCK_OK)
            return r;
    }
    return RELOCK_OK;
}

/* Counts from the moment when all threads wait. A machine that stands still hands off less often
 * within the hand-off time, after which the lock goes through Redis. The hold is verified while it
 * is handed off. */
static void an_acquisition_in_a_crowd_is_a_tenth_of_a_command(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.handoff_ms = slow_ms(100)};
    struct relock_client *client = fixture_client(f, &options);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *actors[N_THREADS];
    uint64_t began_ms, took_ms;
    long long before, n, n_turns;

    assert_result(relock_lock(lock), RELOCK_OK);
    actors_begin(actors, N_THREADS, lock_many_times, lock);
    assert_true(wait_for_waiters(client, N_THREADS));
    began_ms = now_ms();
    before = commands(f);
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < N_THREADS; i++)
        assert_result(actor_result_within(actors[i], 6 * (uint64_t)SOON_MS), RELOCK_OK);
    n = commands(f) - before;
    took_ms = now_ms() - began_ms;
    n_turns = (long long)(took_ms / options.handoff_ms);
    print_message("%d acquisitions: %lld commands in %lld turns\n", N_THREADS * N_ROUNDS, n,
                  n_turns);
    assert_true(n < (long long)N_THREADS * N_ROUNDS / 10 + 4 * n_turns +
                        (long long)took_ms / VERIFY_MS);
}

/* Waits once, so that connections, scripts and subscriptions have been made; returns when the
 * subscription has ended. */
static void have_waited_before(struct fixture *f, struct relock_client *client)
{
    struct relock_lock *other = fixture_lock(f, client, "before");
    struct actor *actor = actor_start();

    assert_true(peer_lock(f->probe, "before", PEER, PEER_LEASE_MS));
    actor_begin_lock(actor, other);
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{before}", 1));
    assert_true(peer_unlock(f->probe, "before", PEER));
    assert_gets_in(actor, other);
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{before}", 0));
}

static void wait_as_many(struct fixture *f, int n)
{
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting[32];
    long long before;

    assert_true(n <= 32);
    have_waited_before(f, client);
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    before = commands(f);
    actors_begin_lock(waiting, (size_t)n, lock);
    assert_true(wait_for_waiters(client, (uint64_t)n));
    assert_counts_to(f, commands, before + 3); /* a try, SUBSCRIBE, a try */

    relock_client_shutdown(client);
    assert_results(waiting, n, RELOCK_E_CLOSED);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void a_wait_costs_three_commands(void **state)
{
    wait_as_many(*state, 1);
}

static void many_that_wait_are_three_commands_too(void **state)
{
    wait_as_many(*state, 32);
}

/* An unused subscription ends after a while, which may happen on a machine that stood still. */
static void waiting_again_does_not_subscribe_again(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct actor *first = actor_start();
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    uint64_t began_ms;
    long long subscribed;

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    actor_begin_acquire(first, lock, &how);
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{orders}", 1));
    subscribed = probe_calls(f->probe, "subscribe");
    began_ms = now_ms();
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(first), RELOCK_CANCELLED);
    for (int i = 0; i < 10; i++) {
        int r = relock_timedlock(lock, 20);

        assert_true(r == RELOCK_TIMEOUT || r == RELOCK_E_CONN); /* of a machine that stood still */
        let_pass(5);
    }
    subscribed = probe_calls(f->probe, "subscribe") - subscribed;
    assert_true(subscribed <= (long long)(now_ms() - began_ms) / LINGER_MS);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    relock_cancel_free(how.cancel);
}

static bool has_all_channels(void *arg)
{
    return probe_n_channels(arg) == N_LOCKS;
}

/* All but one connection have no subscription. Some may open just now. */
static bool one_listens(void *arg)
{
    char listens[32];

    snprintf(listens, sizeof(listens), " sub=%d ", N_LOCKS);
    return probe_n_clients(arg, listens) == 1 &&
           probe_n_clients(arg, " sub=0 ") == probe_n_clients(arg, "") - 1;
}

static void however_many_locks_are_waited_for_one_connection_listens(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct actor *waiting[N_LOCKS];
    char name[32];

    for (int i = 0; i < N_LOCKS; i++) {
        snprintf(name, sizeof(name), "orders-%d", i);
        assert_true(peer_lock(f->probe, name, PEER, NEVER_MS));
        waiting[i] = actor_start();
        actor_begin_lock(waiting[i], fixture_lock(f, client, name));
    }
    assert_true(wait_until(has_all_channels, f->probe, SOON_MS));
    assert_true(wait_until(one_listens, f->probe, SOON_MS));

    relock_client_shutdown(client);
    for (int i = 0; i < N_LOCKS; i++) {
        snprintf(name, sizeof(name), "orders-%d", i);
        assert_result(actor_result(waiting[i]), RELOCK_E_CLOSED);
        assert_true(peer_unlock(f->probe, name, PEER));
    }
}

/* The peer sends its scripts by EVAL. */
static void one_release_causes_one_attempt_of_each_client(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[N_CLIENTS];
    struct relock_lock *locks[N_CLIENTS];
    struct actor *waiting[N_CLIENTS];
    long long before;
    int n_got = 0;

    have_waited_before(f, fixture_client(f, NULL)); /* the scripts are known */
    before = evalshas(f);
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    for (int i = 0; i < N_CLIENTS; i++) {
        clients[i] = woken_client(f);
        waiting[i] = actor_start();
        locks[i] = fixture_lock(f, clients[i], "orders");
        actor_begin_lock(waiting[i], locks[i]);
    }
    assert_counts_to(f, evalshas, before + 2 * N_CLIENTS); /* before and after SUBSCRIBE */
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_counts_to(f, evalshas, before + 3 * N_CLIENTS);

    for (int i = 0; i < N_CLIENTS; i++)
        relock_client_shutdown(clients[i]);
    for (int i = 0; i < N_CLIENTS; i++) {
        int r = actor_result(waiting[i]);

        if (r == RELOCK_OK) {
            n_got++;
            assert_result(actor_unlock(waiting[i], locks[i]), RELOCK_OK);
        } else {
            assert_result(r, RELOCK_E_CLOSED);
        }
    }
    assert_int_equal(n_got, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_pair_is_two_commands_and_nothing_else),
        SERVER_TEST(a_level_is_two_commands_and_nothing_else),
        SERVER_TEST(an_acquisition_in_a_crowd_is_a_tenth_of_a_command),
        SERVER_TEST(a_wait_costs_three_commands),
        SERVER_TEST(many_that_wait_are_three_commands_too),
        SERVER_TEST(waiting_again_does_not_subscribe_again),
        SERVER_TEST(however_many_locks_are_waited_for_one_connection_listens),
        SERVER_TEST(one_release_causes_one_attempt_of_each_client),
    };

    return SERVER_TESTS_RUN(tests);
}
