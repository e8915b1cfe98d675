/* The number of commands, counted by Redis: none is sent twice. */
#include "support/waiter.h"

#include <stdio.h>

#define N_PAIRS 100
#define N_THREADS 8
#define N_ROUNDS 100
#define N_LOCKS 40
#define N_CLIENTS 6
#define VERIFY_MS 5   /* how often a hold is verified while it is handed off */
#define LISTEN_MS 100 /* after which the first of a line subscribes to the channel of the lock */

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

static long long tries_and_subscriptions(struct fixture *f)
{
    return evalshas(f) + probe_calls(f->probe, "subscribe") + probe_calls(f->probe, "unsubscribe");
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
    struct relock_lock *lock = fixture_lock(f, woken_client(f), "orders");
    long long before;

    take_and_give_often(lock); /* the client has sent the commands that it sends once */
    assert_true(wait_for_login(f->probe));
    before = commands(f);
    take_and_give_often(lock);
    assert_int_equal(commands(f) - before, 2 * N_PAIRS);
}

static void a_level_is_two_commands_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, woken_client(f), "orders");
    long long before;

    take_and_give_often(lock);
    assert_true(wait_for_login(f->probe));
    assert_result(relock_lock(lock), RELOCK_OK);
    before = commands(f);
    take_and_give_often(lock);
    assert_int_equal(commands(f) - before, 2 * N_PAIRS);
    assert_result(relock_unlock(lock), RELOCK_OK);
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
    for (int i = 0; i < N_THREADS; i++) {
        actors[i] = actor_start();
        actor_begin_turns(actors[i], lock, N_ROUNDS);
    }
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
    waiter_open_inbox(f, client);
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{before}", 0));
}

/* `n` threads wait for a lock that somebody holds already. Then this thread ends their waits. */
static void wait_as_many(struct fixture *f, struct relock_client *client, int n, long long cost)
{
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting[32];
    long long before = tries_and_subscriptions(f);

    assert_true(n <= 32);
    actors_begin_lock(waiting, (size_t)n, lock);
    assert_true(wait_for_waiters(client, (uint64_t)n));
    assert_counts_to(f, tries_and_subscriptions, before + cost);

    relock_client_shutdown(client);
    assert_results(waiting, n, RELOCK_E_CLOSED);
}

static void wait_behind_a_peer(struct fixture *f, int n)
{
    struct relock_client *client = woken_client(f);

    have_waited_before(f, client);
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    wait_as_many(f, client, n, 3); /* a try, SUBSCRIBE, a try */
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void a_wait_costs_three_commands(void **state)
{
    wait_behind_a_peer(*state, 1);
}

static void many_that_wait_are_three_commands_too(void **state)
{
    wait_behind_a_peer(*state, 32);
}

/* Its first wait opens the inbox of a client: a try, SUBSCRIBE, and again a try. */
static void the_first_wait_of_a_client_costs_two_more(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);

    have_waited_before(f, woken_client(f)); /* the scripts are known */
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    wait_as_many(f, client, 1, 5);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void a_wait_behind_another_client_costs_one_command(void **state)
{
    struct fixture *f = *state;
    struct relock_client *first = woken_client(f), *second = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, first, "orders");
    struct actor *waiting = actor_start();
    long long before;

    have_waited_before(f, second);
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    before = probe_script_calls(f->probe);
    actor_begin_lock(waiting, lock);
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{orders}", 1));
    assert_true(
        probe_wait_script_calls(f->probe, before + 3, SOON_MS)); /* at last because it listens */
    wait_as_many(f, second, 32, 1);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_gets_in(waiting, lock);
}

/* The first of the line listens after a while, which may pass on a machine that stood still. */
static void short_waits_behind_another_client_subscribe_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct actor *first = actor_start();
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    uint64_t began_ms;
    long long subscribed;

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_acquire(first, lock, &how);
    assert_true(probe_wait_in_line(f->probe, "orders", 1)); /* the inbox is open */
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(first), RELOCK_CANCELLED);
    subscribed = probe_calls(f->probe, "subscribe");
    began_ms = now_ms();
    for (int i = 0; i < 10; i++) {
        int r = relock_timedlock(lock, 20);

        assert_true(r == RELOCK_TIMEOUT || r == RELOCK_E_CONN); /* of a machine that stood still */
        let_pass(5);
    }
    subscribed = probe_calls(f->probe, "subscribe") - subscribed;
    assert_true(subscribed <= (long long)(now_ms() - began_ms) / LISTEN_MS);
    assert_result(relock_unlock(held), RELOCK_OK);
    relock_cancel_free(how.cancel);
}

/* All but one connection have no subscription. Some may open just now. */
static bool one_listens(void *arg)
{
    char listens[32];

    snprintf(listens, sizeof(listens), " sub=%d ", N_LOCKS + 1); /* and its inbox */
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
    assert_true(probe_wait_lock_channels(f->probe, N_LOCKS));
    assert_true(wait_until(one_listens, f->probe, SOON_MS));

    relock_client_shutdown(client);
    for (int i = 0; i < N_LOCKS; i++) {
        snprintf(name, sizeof(name), "orders-%d", i);
        assert_result(actor_result(waiting[i]), RELOCK_E_CLOSED);
        assert_true(peer_unlock(f->probe, name, PEER));
    }
}

struct crowd {
    struct relock_client *clients[N_CLIENTS];
    struct relock_lock *locks[N_CLIENTS];
    struct actor *waiting[N_CLIENTS];
};

/* Two attempts of each client, without and with its inbox; the first asks a third time when it
 * listens to the channel of the lock. */
static void crowd_comes(struct fixture *f, struct crowd *crowd)
{
    long long before = evalshas(f);

    for (int i = 0; i < N_CLIENTS; i++) {
        crowd->clients[i] = woken_client(f);
        crowd->waiting[i] = actor_start();
        crowd->locks[i] = fixture_lock(f, crowd->clients[i], "orders");
        actor_begin_lock(crowd->waiting[i], crowd->locks[i]);
    }
    assert_counts_to(f, evalshas, before + 2 * N_CLIENTS + 1);
}

/* One of them has the lock. */
static void crowd_goes(struct crowd *crowd)
{
    int n_got = 0;

    for (int i = 0; i < N_CLIENTS; i++)
        relock_client_shutdown(crowd->clients[i]);
    for (int i = 0; i < N_CLIENTS; i++) {
        int r = actor_result(crowd->waiting[i]);

        if (r == RELOCK_OK) {
            n_got++;
            assert_result(actor_unlock(crowd->waiting[i], crowd->locks[i]), RELOCK_OK);
        } else {
            assert_result(r, RELOCK_E_CLOSED);
        }
    }
    assert_int_equal(n_got, 1);
}

/* The first client asks; while it holds the lock, the next one asks when it listens, and the third
 * one once. */
static void however_many_clients_wait_a_release_causes_three_attempts(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, woken_client(f), "orders");
    struct crowd crowd;
    long long before;

    have_waited_before(f, fixture_client(f, NULL)); /* the scripts are known */
    assert_result(relock_lock(lock), RELOCK_OK);
    crowd_comes(f, &crowd);
    before = evalshas(f);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_counts_to(f, evalshas, before + 4);
    crowd_goes(&crowd);
}

/* The first client hears it. The peer sends its scripts by EVAL. */
static void a_release_of_another_library_causes_two_attempts(void **state)
{
    struct fixture *f = *state;
    struct crowd crowd;
    long long before;

    have_waited_before(f, fixture_client(f, NULL));
    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    crowd_comes(f, &crowd);
    before = evalshas(f);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_counts_to(f, evalshas, before + 2);
    crowd_goes(&crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_pair_is_two_commands_and_nothing_else),
        SERVER_TEST(a_level_is_two_commands_and_nothing_else),
        SERVER_TEST(an_acquisition_in_a_crowd_is_a_tenth_of_a_command),
        SERVER_TEST(a_wait_costs_three_commands),
        SERVER_TEST(many_that_wait_are_three_commands_too),
        SERVER_TEST(the_first_wait_of_a_client_costs_two_more),
        SERVER_TEST(a_wait_behind_another_client_costs_one_command),
        SERVER_TEST(short_waits_behind_another_client_subscribe_once),
        SERVER_TEST(however_many_locks_are_waited_for_one_connection_listens),
        SERVER_TEST(however_many_clients_wait_a_release_causes_three_attempts),
        SERVER_TEST(a_release_of_another_library_causes_two_attempts),
    };

    return SERVER_TESTS_RUN(tests);
}
