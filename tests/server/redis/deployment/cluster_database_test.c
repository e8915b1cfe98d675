/*
 * The database in the url of a cluster: Valkey 9 may have several, other servers have database 0.
 */
#include "support/actor.h"
#include "support/cluster.h"
#include "support/fixture.h"

#include <stdio.h>

#define N_DATABASES "4"

static struct cluster *cluster;
static bool has_databases; /* the server has several */

static struct relock_options options_of(struct fixture *f, char url[300], const char *end)
{
    const char *hosts = cluster->tls_url[0] ? cluster->tls_url : cluster->url;
    struct relock_options options = {.url = url, .recheck_ms = NEVER_MS};

    (void)snprintf(url, 300, "%s%s", hosts, end);
    if (cluster->tls_url[0])
        options.tls_ca_file = cluster->ca_file;
    return fixture_options(f, &options);
}

static struct relock_client *client_of(struct fixture *f, const char *end)
{
    char url[300];
    struct relock_options options = options_of(f, url, end);

    return fixture_client(f, &options);
}

static long long n_in(struct probe *probe, int db)
{
    long long n;

    assert_int_equal(probe_int(probe, "SELECT %d", db), 0);
    n = probe_int(probe, "EXISTS orders");
    assert_int_equal(probe_int(probe, "SELECT 0"), 0);
    return n;
}

static void a_lock_is_in_the_database_of_the_url(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock, *same, *other;
    struct relock_client *waiting;
    struct actor *waiter;

    if (!has_databases)
        skip();
    waiter = actor_start();
    waiting = client_of(f, "?pubsub=sharded&db=3");
    lock = fixture_lock(f, client_of(f, "/3"), "orders");
    same = fixture_lock(f, waiting, "orders");
    other = fixture_lock(f, client_of(f, ""), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(n_in(f->probe, 3), 1);
    assert_int_equal(n_in(f->probe, 0), 0);
    assert_result(relock_trylock(other), RELOCK_OK);
    actor_begin_lock(waiter, same);
    assert_true(wait_for_waiters(waiting, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_int_equal(n_in(f->probe, 3), 1);
    assert_result(actor_unlock(waiter, same), RELOCK_OK);
    assert_result(relock_unlock(other), RELOCK_OK);
    assert_int_equal(n_in(f->probe, 3), 0);
    actor_end_all();
}

static void a_database_that_the_cluster_lacks_is_refused(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = NULL;
    char url[300];
    struct relock_options options = options_of(f, url, "/" N_DATABASES);

    assert_result(relock_client_new(&options, &client), RELOCK_E_SERVER);
    assert_null(client);
    assert_true(log_wait(f->log, "SELECT: ", SOON_MS));
    assert_true(log_wait(f->log, "the cluster lacks this database: leave it out", SOON_MS));
}

static int start(void **state)
{
    struct server_options options = {.tcp = true, .cluster = true};
    struct fixture *f;

    if (fixture_start(state) != 0)
        return -1;
    f = *state;
    has_databases = probe_list(f->probe, "CONFIG GET cluster-databases")[0] != '\0';
    if (fixture_stop(state) != 0)
        return -1;
    if (has_databases) {
        options.args[0] = "--cluster-databases";
        options.args[1] = N_DATABASES;
    }
    if (fixture_start_with(state, &options) != 0)
        return -1;
    f = *state;
    cluster = cluster_start_on(f->server);
    probe_close(f->probe); /* one connection is enough */
    f->probe = cluster->node[0].probe;
    return 0;
}

static int stop(void **state)
{
    struct fixture *f = *state;

    cluster_stop(cluster);
    f->probe = NULL;
    f->server = NULL;
    return fixture_stop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_lock_is_in_the_database_of_the_url),
        SERVER_TEST(a_database_that_the_cluster_lacks_is_refused),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
