/*
 * Nodes of a cluster, with TLS, that announce host names, or no host at all. A certificate must
 * have the announced name.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"

#include <string.h>

#define NAME "orders"
#define HOST "localhost" /* in the certificates, as is 127.0.0.1 */

static const struct relock_options patient = {.command_timeout_ms = 20000, .recheck_ms = 60000};

static unsigned count_in(const char *text, const char *word)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        n++;
    return n;
}

/* ---- what the nodes announce --------------------------------------------------------------- */

struct announcement {
    struct clustered *c;
    const char *host;
};

/* Each node names all of them so. */
static bool is_known(void *arg)
{
    const struct announcement *announcement = arg;
    struct cluster *cluster = announcement->c->cluster;

    for (size_t i = 0; i < cluster->n; i++)
        if (count_in(probe_text(cluster->node[i].probe, "CLUSTER NODES"), announcement->host) <
            cluster->n)
            return false;
    return true;
}

static void announce(struct clustered *c, const char *host, const char *endpoint)
{
    struct announcement announcement = {c, *host ? host : "127.0.0.1"};

    for (size_t i = 0; i < c->cluster->n; i++) {
        struct probe *probe = c->cluster->node[i].probe;

        if (probe_int(probe, "CONFIG SET cluster-announce-hostname %s", host) != 0)
            fixture_skip(); /* older than Redis 7 */
        assert_int_equal(
            probe_int(probe, "CONFIG SET cluster-preferred-endpoint-type %s", endpoint), 0);
    }
    assert_true(wait_until(is_known, &announcement, CLUSTER_FAILOVER_MS));
}

/* ---- tests --------------------------------------------------------------------------------- */

/* Locks of all nodes, while a slot of one moves. */
static void locks_work(struct clustered *c)
{
    struct relock_client *client = clustered_client(c, &patient);
    struct relock_lock *locks[CLUSTERED_LOCKS];
    int slot = cluster_slot(c->cluster, "orders:0");

    clustered_lock_all(c, client, locks);
    cluster_move(c->cluster, slot, clustered_other(c, slot));
    clustered_unlock_all(locks);
}

static void nodes_may_announce_host_names(void **state)
{
    struct clustered *c = *state;

    announce(c, HOST, "hostname");
    locks_work(c);
    assert_true(log_wait(c->f->log, HOST ":", SOON_MS));
    assert_int_equal(log_count(c->f->log, "; reconnecting"), 0);
}

static void nodes_may_announce_no_host(void **state)
{
    struct clustered *c = *state;

    announce(c, HOST, "unknown-endpoint");
    locks_work(c);
    assert_int_equal(log_count(c->f->log, HOST ":"), 0);
    assert_int_equal(log_count(c->f->log, "; reconnecting"), 0);
}

/* The same nodes have new names then. */
static void a_waiter_is_woken_after_the_names_have_changed(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *held, *wanted;
    struct relock_client *waiting;
    struct actor *waiter = actor_start();
    int slot = cluster_slot(c->cluster, NAME);

    announce(c, "", "ip");
    held = fixture_lock(c->f, clustered_client(c, &patient), NAME);
    waiting = clustered_client(c, &patient);
    wanted = fixture_lock(c->f, waiting, NAME);
    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_lock(waiter, wanted);
    assert_true(wait_for_waiters(waiting, 1));
    announce(c, HOST, "hostname");
    cluster_move(c->cluster, slot, clustered_other(c, slot));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_result(actor_unlock(waiter, wanted), RELOCK_OK);
    actor_end_all();
}

static int start(void **state)
{
    return clustered_start_with(
        state, &(struct cluster_options){.masters = 3, .replicas = 1, .tls = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(nodes_may_announce_host_names),
        CLUSTER_TEST(nodes_may_announce_no_host),
        CLUSTER_TEST(a_waiter_is_woken_after_the_names_have_changed),
    };

    return cmocka_run_group_tests(tests, start, clustered_stop);
}
