/*
 * Locks through a proxy of another project, in front of one server.
 *
 *     proxies_test envoy-redis | envoy-tcp | haproxy | stunnel-client | stunnel-server
 *
 * All but the first move bytes, so nothing is different but that they end idle connections. The
 * first knows the commands of Redis, and lacks those that concern a connection.
 */
#include "support/gateway.h"

#include "support/actor.h"
#include "support/fixture.h"
#include "support/kinds.h"

#include <stdlib.h>
#include <string.h>

#define RECHECK_MS 300
#define LEASE_MS 3000 /* renewed every second */
#define N_THREADS 4
#define N_TURNS 20

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const struct gateway_kind *chosen;
static bool moves_bytes; /* a connection through it is one to the server */

/* ---- the fixture --------------------------------------------------------------------------- */

static struct gateway *gateway;

static int start(void **state)
{
    struct fixture *f;

    if (fixture_start_with(state, &(struct server_options){.tcp = true, .tls = true}) != 0)
        return -1;
    f = *state;
    gateway = gateway_start(chosen, f->server);
    if (!moves_bytes)
        f->neighbours = " addr=127.0.0.1:"; /* it keeps its connections to the server */
    return 0;
}

static int stop(void **state)
{
    gateway = gateway_stop(gateway);
    return fixture_stop(state);
}

static struct relock_client *client_of(struct fixture *f, struct relock_options options)
{
    options.url = gateway->url;
    if (strncmp(options.url, "rediss:", 7) == 0)
        options.tls_ca_file = f->server->ca_file;
    if (options.recheck_ms == 0)
        options.recheck_ms = moves_bytes ? NEVER_MS : RECHECK_MS;
    if (options.watchdog_timeout_ms == 0)
        options.watchdog_timeout_ms = slow_ms(LEASE_MS);
    return fixture_client(f, &options);
}

/* ---- cases --------------------------------------------------------------------------------- */

/* Behind those that move bytes, only a message wakes it, unless its kind polls. */
static void a_release_lets_a_waiter_in(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, (struct relock_options){0});
    struct relock_client *other = client_of(f, (struct relock_options){0});
    struct relock_lock *held = kind_lock(f, client, "orders");
    struct relock_lock *wanted = kind_lock(f, other, "orders");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(actor_trylock(waiting, wanted), RELOCK_BUSY);
    actor_begin_lock(waiting, wanted);
    assert_true(wait_for_waiters(other, 1));
    assert_true(actor_is_busy(waiting));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiting, wanted);
}

static long counter;

static int count(void *lock)
{
    for (int i = 0; i < N_TURNS; i++) {
        long before;
        int r = relock_lock(lock);

        if (r != RELOCK_OK)
            return r;
        before = counter;
        let_pass(1);
        counter = before + 1;
        r = relock_unlock(lock);
        if (r != RELOCK_OK)
            return r;
    }
    return RELOCK_OK;
}

static void threads_of_two_clients_exclude_each_other(void **state)
{
    struct fixture *f = *state;
    struct actor *actors[2 * N_THREADS];

    counter = 0;
    for (size_t i = 0; i < 2; i++) {
        struct relock_client *client = client_of(f, (struct relock_options){0});

        actors_begin(actors + i * N_THREADS, N_THREADS, count, kind_lock(f, client, "orders"));
    }
    for (size_t i = 0; i < COUNT(actors); i++)
        assert_result(actor_result_within(actors[i], 6 * SOON_MS), RELOCK_OK);
    assert_int_equal(counter, 2 * N_THREADS * N_TURNS);
}

/* Connections are idle for longer than the proxy leaves them open. */
static void a_hold_and_a_wait_outlast_idle_connections(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, (struct relock_options){0});
    struct relock_client *other = client_of(f, (struct relock_options){0});
    struct relock_lock *held = kind_lock(f, client, "orders");
    struct relock_lock *wanted = kind_lock(f, other, "orders");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_lock(waiting, wanted);
    assert_true(wait_for_waiters(other, 1));
    assert_true(wait_for_renewals(client, 0, 2));
    if (moves_bytes) {
        assert_true(wait_for_reconnects(client, 1));
        assert_true(wait_for_reconnects(other, 2));
    }
    assert_true(actor_is_busy(waiting));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiting, wanted);
    assert_int_equal(losses_count(f->losses), 0);
}

/* Without messages only a renewal would notice it, and none comes in time. */
static void a_deleted_lock_is_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(
        f, (struct relock_options){.watchdog_timeout_ms = moves_bytes ? NEVER_MS : LEASE_MS});
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    let_pass(200); /* a hold of 100 ms is tracked */
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

static void only_a_proxy_that_knows_commands_lacks_some(void **state)
{
    static const char *const lacked[] = {"CLIENT INFO: ", "unknown command 'SUBSCRIBE'"};
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, (struct relock_options){0});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    let_pass(200);
    assert_result(relock_unlock(lock), RELOCK_OK);
    if (moves_bytes) {
        assert_int_equal(log_count(f->log, "; without it "), 0);
        return;
    }
    for (size_t i = 0; i < COUNT(lacked); i++)
        assert_true(log_wait(f->log, lacked[i], SOON_MS));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_release_lets_a_waiter_in),
        KINDS_TEST_OF(a_release_lets_a_waiter_in, write),
        SEMAPHORE_TEST(a_release_lets_a_waiter_in),
        KINDS_TEST_OF(threads_of_two_clients_exclude_each_other, reentrant),
        KINDS_TEST_OF(threads_of_two_clients_exclude_each_other, plain),
        KINDS_TEST_OF(a_hold_and_a_wait_outlast_idle_connections, reentrant),
        KINDS_TEST_OF(a_hold_and_a_wait_outlast_idle_connections, fair),
        KINDS_TEST_OF(a_deleted_lock_is_reported, reentrant),
        SERVER_TEST(only_a_proxy_that_knows_commands_lacks_some),
    };

    if (argc != 2)
        return EXIT_FAILURE;
    chosen = gateway_find(argv[1]);
    moves_bytes = strcmp(argv[1], "envoy-redis") != 0;
    return chosen ? cmocka_run_group_tests(tests, start, stop) : SERVER_EXIT_SKIP;
}
