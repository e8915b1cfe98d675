/*
 * A stable address in front of the nodes of a cluster: both announce it, and it leads to the one
 * that is the master. After a failover, new connections reach the new master. Old ones stay at the
 * old one, which answers MOVED with the address that was just asked.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"
#include "support/reactor.h"
#include "support/tracked.h"

#include <stdio.h>
#include <string.h>

#define NAME "orders"
#define LEASE_MS 6000 /* longer than the failover takes */
#define NODE_TIMEOUT_MS 1000
#define REPLACED "the server behind this address was replaced"

/* When the nodes vote again for a replica of the same master: after two timeouts of nodes. */
static uint64_t votes_at_ms;

static struct proxy *address_of(const struct clustered *c)
{
    return c->cluster->node[0].proxy;
}

static size_t master_of(struct clustered *c)
{
    return cluster_owner(c->cluster, 0);
}

/* ---- the fixture --------------------------------------------------------------------------- */

static int start(void **state)
{
    int r =
        clustered_start_with(state, &(struct cluster_options){.masters = 1,
                                                              .replicas = 1,
                                                              .node_timeout_ms = NODE_TIMEOUT_MS,
                                                              .tls = true,
                                                              .proxies = true});
    struct clustered *c = *state;

    if (r == 0)
        assert_int_equal(probe_int(c->cluster->node[1].probe, "CONFIG SET cluster-announce-port %s",
                                   c->cluster->node[0].announced[0]),
                         0);
    return r;
}

static bool is_announced(void *arg)
{
    struct clustered *c = arg;
    const char *nodes = probe_text(c->cluster->node[0].probe, "CLUSTER NODES");

    return !strstr(nodes, c->cluster->node[1].announced[0]);
}

static bool is_over(void *at_ms)
{
    return now_ms() >= *(uint64_t *)at_ms;
}

static int begin(void **state)
{
    struct clustered *c = *state;
    int r = clustered_begin(state);

    assert_true(wait_until(is_announced, c, CLUSTER_FAILOVER_MS));
    assert_true(wait_until(is_over, &votes_at_ms, SOON_MS));
    proxy_lead_to(address_of(c), c->cluster->node[master_of(c)].server);
    return r;
}

static int end(void **state)
{
    struct clustered *c = *state;

    proxy_reset(address_of(c));
    return clustered_end(state);
}

static struct relock_client *client_of(struct clustered *c)
{
    char url[64];

    (void)snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%s",
                   c->cluster->node[0].announced[0]);
    return fixture_client(c->f, &(struct relock_options){.url = url,
                                                         .watchdog_timeout_ms = slow_ms(LEASE_MS),
                                                         .command_timeout_ms = slow_ms(LEASE_MS),
                                                         .recheck_ms = 60000});
}

/* The other node becomes the master, and the address leads there. No connection ends. */
static void fail_over(struct clustered *c)
{
    size_t n = proxy_n_connections(address_of(c));
    size_t new = cluster_replica(c->cluster, master_of(c));

    proxy_lead_to(address_of(c), c->cluster->node[new].server);
    assert_int_equal(cluster_fail_over(c->cluster, master_of(c)), new);
    votes_at_ms = now_ms() + (uint64_t)3 * NODE_TIMEOUT_MS;
    assert_true(proxy_n_connections(address_of(c)) >= n);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void a_hold_is_renewed_at_the_new_master(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = client_of(c);
    struct relock_lock *lock = fixture_lock(c->f, client, NAME);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 1));
    fail_over(c);
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 3));
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_int_equal(log_count(c->f->log, "renewal refused"), 0);
    assert_true(log_count(c->f->log, REPLACED) > 0);
    assert_int_equal(log_count(c->f->log, "use redis+cluster://"), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(losses_count(c->f->losses), 0);
}

static void calls_go_on_at_the_new_master(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = client_of(c);
    struct relock_lock *lock = fixture_lock(c->f, client, NAME);
    struct relock_events *events = reactor_events(client);
    uint64_t owner;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_OK);
    assert_result(reactor_release(lock, owner, events), RELOCK_OK);
    fail_over(c);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_OK);
    assert_result(reactor_release(lock, owner, events), RELOCK_OK);
    relock_events_free(events);
}

/* It waits for a message only. */
static void a_waiter_is_woken_by_a_release_at_the_new_master(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *held = fixture_lock(c->f, client_of(c), NAME);
    struct relock_client *client = client_of(c);
    struct relock_lock *wanted = fixture_lock(c->f, client, NAME);
    struct actor *waiter = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_lock(waiter, wanted);
    assert_true(wait_for_waiters(client, 1));
    fail_over(c);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiter, wanted);
    actor_end_all();
}

/* The new master reports it, over a connection for messages that leads there, too. */
static void a_deleted_lock_is_reported_by_the_new_master(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = client_of(c);
    struct relock_lock *lock = fixture_lock(c->f, client, NAME);
    size_t master = master_of(c);
    struct probe *old = c->cluster->node[master].probe;
    struct probe *new = c->cluster->node[cluster_replica(c->cluster, master)].probe;
    long long n_old = tracked_count(old), n_new = tracked_count(new);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(tracked_wait(old, n_old + 1));
    fail_over(c);
    assert_true(tracked_wait(new, n_new + 1));
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 1));
    assert_int_equal(probe_int(cluster_probe(c->cluster, NAME), "DEL " NAME), 1);
    assert_true(losses_wait(c->f->losses, 1, slow_ms(LEASE_MS) / 5));
    assert_int_equal(losses_get(c->f->losses, 0).reason, RELOCK_LOST_GONE);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

#define ADDRESS_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ADDRESS_TEST(a_hold_is_renewed_at_the_new_master),
        ADDRESS_TEST(calls_go_on_at_the_new_master),
        ADDRESS_TEST(a_waiter_is_woken_by_a_release_at_the_new_master),
        ADDRESS_TEST(a_deleted_lock_is_reported_by_the_new_master),
    };

    return cmocka_run_group_tests(tests, start, clustered_stop);
}
