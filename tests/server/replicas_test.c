/* A client with min_replicas holds only locks that so many replicas acknowledged. */
#include "support/fixture.h"
#include "support/keeping.h"
#include "support/reactor.h"

#include <stdio.h>
#include <string.h>

#define REPLICA_MS 200

static struct server *start_replica(struct fixture *f)
{
    struct server_options options = {.args = {"--replicaof", "127.0.0.1", NULL}};
    char port[16];

    snprintf(port, sizeof(port), "%d", f->server->port);
    options.args[2] = port;
    return server_start(&options);
}

static bool is_in_sync(void *arg)
{
    return strstr(probe_text(arg, "INFO replication"), "state=online") != NULL;
}

static struct relock_client *careful_client(struct fixture *f, uint64_t timeout_ms)
{
    return fixture_client(
        f, &(struct relock_options){.min_replicas = 1, .replica_timeout_ms = timeout_ms});
}

static void a_hold_says_how_many_replicas_acknowledged(void **state)
{
    struct fixture *f = *state;
    struct server *replica = start_replica(f);
    struct relock_lock *lock = fixture_lock(f, careful_client(f, slow_ms(5000)), "orders");
    struct relock_grant grant;

    assert_true(wait_until(is_in_sync, f->probe, 6 * (uint64_t)SOON_MS));
    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    server_stop(replica);
}

/* It is granted by a token, not by nothing. */
static void a_fenced_hold_says_how_many_replicas_acknowledged(void **state)
{
    struct fixture *f = *state;
    struct server *replica = start_replica(f);
    struct relock_lock *lock =
        fixture_lock_of(f, careful_client(f, slow_ms(5000)), "orders", relock_fencedlock_new);
    struct relock_grant grant;

    assert_true(wait_until(is_in_sync, f->probe, 6 * (uint64_t)SOON_MS));
    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_true(grant.fencing_token > 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    server_stop(replica);
}

/* Only the acquire waits for replicas, so it needs a thread. */
static void what_a_thread_has_acquired_is_released_without_blocking(void **state)
{
    struct fixture *f = *state;
    struct server *replica = start_replica(f);
    struct relock_client *client = careful_client(f, slow_ms(5000));
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.owner = relock_owner_new()};
    struct outcome outcome;

    assert_true(wait_until(is_in_sync, f->probe, 6 * (uint64_t)SOON_MS));
    assert_result(outcome_acquire(lock, &how, events, &outcome), RELOCK_E_UNSUPPORTED);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(reactor_release(lock, how.owner, events), RELOCK_OK);
    assert_result(relock_check(lock, how.owner, NULL), RELOCK_OK);
    assert_result(reactor_release(lock, how.owner, events), RELOCK_OK);
    assert_result(relock_check(lock, how.owner, NULL), RELOCK_NOT_OWNER);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_null(relock_events_free(events));
    server_stop(replica);
}

static const char *channel_of(struct relock_client *client)
{
    static char name[80];

    snprintf(name, sizeof(name), "relock_client:{%s}", relock_client_id(client));
    return name;
}

static void without_a_replica_nothing_is_held(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = careful_client(f, REPLICA_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_grant grant = {.hold_count = 7};

    for (int i = 0; i < 3; i++) {
        struct relock_how how = {.wait_ms = RELOCK_FOREVER};

        assert_result(relock_acquire(lock, &how, &grant), RELOCK_E_REPLICAS);
        assert_int_equal(grant.hold_count, 0);
    }
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_int_equal(stats_of(client).holds, 0);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

static void a_replica_that_hangs_does_not_count(void **state)
{
    struct fixture *f = *state;
    struct server *replica = start_replica(f);
    struct relock_lock *lock = fixture_lock(f, careful_client(f, REPLICA_MS), "orders");

    assert_true(wait_until(is_in_sync, f->probe, 6 * (uint64_t)SOON_MS));
    server_pause(replica);
    assert_result(relock_lock(lock), RELOCK_E_REPLICAS);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    server_stop(replica);
}

/* ---- locks that are kept ------------------------------------------------------------------- */

static void a_kept_lock_counts_as_acknowledged_until_it_is_released(void **state)
{
    struct fixture *f = *state;
    struct server *replica = start_replica(f);
    struct relock_client *client;
    struct relock_lock *lock;
    struct relock_grant grant;
    long long n_waits;

    assert_true(wait_until(is_in_sync, f->probe, 6 * (uint64_t)SOON_MS));
    client = keeping_client(f, &(struct relock_options){.min_replicas = 1,
                                                        .watchdog_timeout_ms = NEVER_MS,
                                                        .replica_timeout_ms = slow_ms(5000)});
    lock = fixture_lock(f, client, "orders");
    keeping_fill(client, lock);
    n_waits = probe_calls(f->probe, "wait");
    server_pause(replica);

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 1);
    assert_int_equal(probe_calls(f->probe, "wait"), n_waits);
    assert_result(relock_unlock(lock), RELOCK_OK);

    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_E_REPLICAS);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    server_stop(replica);
}

static void a_lock_that_no_replica_acknowledged_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){
               .min_replicas = 1, .replica_timeout_ms = REPLICA_MS, .keep_ms = NEVER_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_true(probe_wait_subscribers(f->probe, channel_of(client), 1));
    for (int i = 0; i < 2; i++)
        assert_result(relock_lock(lock), RELOCK_E_REPLICAS);
    assert_int_equal(stats_of(client).kept, 0);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

static void a_client_without_min_replicas_waits_for_none(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant;

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.acked_replicas, 0);
    assert_int_equal(probe_calls(f->probe, "wait"), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* A replica is to be served at once. */
static int start_master(void **state)
{
    return fixture_start_with(
        state, &(struct server_options){.tcp = true, .args = {"--repl-diskless-sync-delay", "0"}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_client_without_min_replicas_waits_for_none),
        SERVER_TEST(a_hold_says_how_many_replicas_acknowledged),
        FENCED_TEST(a_fenced_hold_says_how_many_replicas_acknowledged),
        SERVER_TEST(what_a_thread_has_acquired_is_released_without_blocking),
        SERVER_TEST(without_a_replica_nothing_is_held),
        SERVER_TEST(a_replica_that_hangs_does_not_count),
        SERVER_TEST(a_kept_lock_counts_as_acknowledged_until_it_is_released),
        SERVER_TEST(a_lock_that_no_replica_acknowledged_is_not_kept),
    };

    return cmocka_run_group_tests(tests, start_master, fixture_stop);
}
