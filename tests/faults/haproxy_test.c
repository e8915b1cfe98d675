/*
 * Locks through HAProxy in TCP mode, in front of a master and its replica: the address stays, and
 * the server behind it changes or is gone.
 */
#include "support/haproxy.h"

#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"

#include <stdlib.h>
#include <string.h>

#define LEASE_MS 4000
#define IDLE_MS 200
#define LONG_MS 600000

struct deployment {
    struct fixture *f; /* its server and probe are the first master's */
    struct server *replica;
    struct probe *probe; /* to the replica */
    struct haproxy *haproxy;
};

/* ---- the fixture --------------------------------------------------------------------------- */

static int start(void **state)
{
    static struct deployment deployment;
    void *fixture;

    if (!haproxy_is_there()) {
        print_error("there is no haproxy: skipped\n");
        exit(SERVER_EXIT_SKIP);
    }
    if (fixture_start_with(
            &fixture, &(struct server_options){.tcp = true,
                                               .args = {"--repl-diskless-sync-delay", "0"}}) != 0)
        return -1;
    deployment = (struct deployment){.f = fixture};
    *state = &deployment;
    return 0;
}

static int stop(void **state)
{
    struct deployment *deployment = *state;
    void *fixture = deployment->f;

    return fixture_stop(&fixture);
}

static bool is_in_sync(void *arg)
{
    return strstr(probe_text(arg, "INFO replication"), "master_link_status:up") != NULL;
}

static int begin_with(void **state, uint64_t idle_ms)
{
    struct deployment *deployment = *state;
    void *fixture = deployment->f;

    deployment->replica = server_start_replica(deployment->f->server);
    deployment->probe = probe_open(deployment->replica->socket);
    assert_true(wait_until(is_in_sync, deployment->probe, 2 * (uint64_t)SOON_MS));
    deployment->haproxy = haproxy_start(deployment->f->server, deployment->replica, idle_ms);
    return fixture_begin(&fixture);
}

static int begin(void **state)
{
    return begin_with(state, LONG_MS);
}

static int begin_impatient(void **state)
{
    return begin_with(state, IDLE_MS);
}

static int end(void **state)
{
    struct deployment *deployment = *state;
    void *fixture = deployment->f;

    deployment->haproxy = haproxy_stop(deployment->haproxy);
    deployment->probe = probe_close(deployment->probe);
    deployment->replica = server_stop(deployment->replica);
    server_kill(deployment->f->server); /* its data may be older than the releases */
    return fixture_end(&fixture);
}

static struct relock_client *client_of(struct deployment *deployment, struct relock_options options)
{
    options.url = deployment->haproxy->url;
    if (options.watchdog_timeout_ms == 0)
        options.watchdog_timeout_ms = slow_ms(LEASE_MS);
    return fixture_client(deployment->f, &options);
}

/* ---- failover ------------------------------------------------------------------------------ */

static void promote(struct deployment *deployment)
{
    assert_int_equal(probe_int(deployment->probe, "REPLICAOF NO ONE"), 0);
    assert_true(haproxy_has_master(deployment->haproxy));
}

/* One lock is held and renewed, one is waited for, and one is released while no server answers. */
static void survive(struct deployment *deployment, void (*leave)(struct server *server))
{
    struct relock_client *client = client_of(deployment, (struct relock_options){0});
    struct relock_client *hasty =
        client_of(deployment, (struct relock_options){.release_timeout_ms = 20});
    struct relock_client *other =
        client_of(deployment, (struct relock_options){.recheck_ms = LONG_MS});
    struct relock_lock *held = fixture_lock(deployment->f, client, "orders");
    struct relock_lock *released = fixture_lock(deployment->f, hasty, "invoices");
    struct relock_lock *wanted = fixture_lock(deployment->f, other, "orders");
    struct actor *waiting = actor_start();
    uint64_t renewed;

    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(relock_lock(released), RELOCK_OK);
    actor_begin(waiting, actor_take_turn, wanted);
    assert_true(
        probe_wait_in_line(deployment->probe, "orders", 1)); /* the locks came before that */

    leave(deployment->f->server);
    assert_true(haproxy_has_none(deployment->haproxy));
    assert_result(relock_unlock(released), RELOCK_E_CONN);
    promote(deployment);

    renewed = stats_of(client).renewed;
    assert_true(wait_for_renewals(client, renewed, 2));
    assert_true(probe_wait_no_key(deployment->probe, "invoices", SOON_MS));
    assert_true(actor_is_busy(waiting));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(losses_count(deployment->f->losses), 0);
    assert_true(wait_for_no_keys(deployment->probe));
}

static void locks_survive_a_master_that_is_killed(void **state)
{
    survive(*state, server_kill);
}

/* HAProxy notices that it does not answer. */
static void locks_survive_a_master_that_is_stopped(void **state)
{
    survive(*state, server_pause);
}

/* ---- connections that the proxy ends ------------------------------------------------------- */

static void an_idle_connection_that_is_closed_costs_no_call_an_error(void **state)
{
    struct deployment *deployment = *state;
    struct relock_client *client = client_of(deployment, (struct relock_options){0});
    struct relock_lock *lock = fixture_lock(deployment->f, client, "orders");

    for (int i = 0; i < 4; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        let_pass(2 * IDLE_MS);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_true(stats_of(client).reconnects > 0);
    assert_int_equal(losses_count(deployment->f->losses), 0);
}

/* Its connection for messages is closed again and again. */
static void a_waiter_outlasts_connections_that_are_closed(void **state)
{
    struct deployment *deployment = *state;
    struct relock_client *client =
        client_of(deployment, (struct relock_options){.recheck_ms = LONG_MS});
    struct relock_client *other = client_of(deployment, (struct relock_options){0});
    struct relock_lock *held = fixture_lock(deployment->f, other, "orders");
    struct relock_lock *wanted = fixture_lock(deployment->f, client, "orders");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin(waiting, actor_take_turn, wanted);
    assert_true(wait_for_reconnects(client, 3));
    assert_true(actor_is_busy(waiting));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
}

/* ---- no server ----------------------------------------------------------------------------- */

/* HAProxy accepts each connection and closes it. */
static void without_a_server_a_call_ends_at_its_deadline(void **state)
{
    struct deployment *deployment = *state;
    struct relock_options options = {.url = deployment->haproxy->url,
                                     .command_timeout_ms = slow_ms(500)};
    struct relock_options all = fixture_options(deployment->f, &options);
    struct relock_client *client = client_of(deployment, options);
    struct relock_client *late = NULL;
    struct relock_lock *lock = fixture_lock(deployment->f, client, "orders");
    struct actor *caller = actor_start();
    uint64_t began_ms;

    server_kill(deployment->f->server);
    assert_true(haproxy_has_none(deployment->haproxy));
    assert_result(actor_lock(caller, lock), RELOCK_E_CONN);
    assert_in_range(actor_took_ms(caller), 300, slow_ms(3000));
    assert_result(actor_timedlock(caller, lock, 100), RELOCK_E_CONN);
    began_ms = now_ms();
    assert_result(relock_client_new(&all, &late), RELOCK_E_CONN);
    assert_in_range(now_ms() - began_ms, 0, slow_ms(3000));
    assert_null(late);

    promote(deployment);
    assert_result(actor_lock(caller, lock), RELOCK_OK);
    assert_result(actor_unlock(caller, lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(locks_survive_a_master_that_is_killed, begin, end),
        cmocka_unit_test_setup_teardown(locks_survive_a_master_that_is_stopped, begin, end),
        cmocka_unit_test_setup_teardown(an_idle_connection_that_is_closed_costs_no_call_an_error,
                                        begin_impatient, end),
        cmocka_unit_test_setup_teardown(a_waiter_outlasts_connections_that_are_closed,
                                        begin_impatient, end),
        cmocka_unit_test_setup_teardown(without_a_server_a_call_ends_at_its_deadline, begin, end),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
