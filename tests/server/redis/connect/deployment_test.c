/*
 * Servers that take no locks: a Sentinel, a node of a cluster, an old version, a replica.
 * Connecting fails with a text that says what to do, and a replica that becomes a master is
 * accepted. A server that may evict locks causes a warning.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/script_server.h"

#include <stdio.h>
#include <string.h>

static struct server *other; /* the server under test */
static struct probe *probe;  /* to it */

static void begin_other(const struct server_options *options)
{
    other = server_start(options);
    assert_non_null(other);
    probe = probe_open(other->socket);
}

static void begin_node(void)
{
    begin_other(&(struct server_options){.tcp = true, .cluster = true});
}

static int end(void **state)
{
    if (probe)
        probe = probe_close(probe);
    other = server_stop(other);
    return fixture_end(state);
}

static struct relock_options options_of(struct fixture *f, unsigned flags)
{
    return fixture_options(f, &(struct relock_options){.url = other->unix_url,
                                                       .command_timeout_ms = outlast_ms(1200),
                                                       .flags = flags});
}

static int connect_other(struct fixture *f, unsigned flags)
{
    struct relock_options options = options_of(f, flags);
    struct relock_client *client = NULL;
    int r = relock_client_new(&options, &client);

    if (r != RELOCK_OK)
        assert_null(client);
    relock_client_free(client);
    return r;
}

static struct relock_lock *lock_there(struct fixture *f, unsigned flags)
{
    struct relock_options options = options_of(f, flags);

    return fixture_lock(f, fixture_client(f, &options), "orders");
}

static void be_replica(void)
{
    assert_int_equal(probe_int(probe, "REPLICAOF 127.0.0.1 1"), 0);
}

static void be_master(void)
{
    assert_int_equal(probe_int(probe, "REPLICAOF NO ONE"), 0);
}

static void drop_connections(void)
{
    probe_int(probe, "CLIENT KILL TYPE normal SKIPME yes");
}

/* ---- not supported ------------------------------------------------------------------------- */

static void is_unsupported(struct fixture *f, const char *what, const char *advice)
{
    assert_result(connect_other(f, 0), RELOCK_E_UNSUPPORTED);
    assert_true(log_wait_n(f->log, what, 1, SOON_MS));
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_ERROR), 1);
    assert_int_equal(log_count(f->log, advice), 1);
    assert_result(connect_other(f, RELOCK_LAZY), RELOCK_E_UNSUPPORTED); /* time does not mend it */
}

static void a_sentinel_is_unsupported(void **state)
{
    begin_other(&(struct server_options){.tcp = true, .sentinel = true});
    is_unsupported(*state, "this is a Sentinel", "the address of the master");
}

/* It has no databases. */
static void a_sentinel_with_a_database_in_the_url_is_unsupported(void **state)
{
    struct fixture *f = *state;
    struct relock_options options;
    struct relock_client *client;
    char url[128];

    begin_other(&(struct server_options){.tcp = true, .sentinel = true});
    snprintf(url, sizeof(url), "%s?db=3", other->unix_url);
    options = fixture_options(f, &(struct relock_options){.url = url});
    assert_result(relock_client_new(&options, &client), RELOCK_E_UNSUPPORTED);
    assert_true(log_wait_n(f->log, "this is a Sentinel", 1, SOON_MS));
}

static void a_node_of_a_cluster_is_unsupported(void **state)
{
    begin_node();
    is_unsupported(*state, "this is a node of a cluster", "use redis+cluster://");
}

/* A cluster node replaces a server: results and log say so. */
static void calls_report_a_cluster_node_that_replaced_the_server(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock;

    begin_node();
    server_kill(other);
    other->options.cluster = false;
    server_restart(other);
    lock = lock_there(f, 0);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    other->options.cluster = true;
    server_restart(other);
    assert_result(relock_trylock(lock), RELOCK_E_UNSUPPORTED);
    assert_true(log_wait(f->log, "not acquired: ", SOON_MS));
    assert_true(log_wait(f->log, "this is a node of a cluster", SOON_MS));
}

static void a_server_that_is_too_old_is_unsupported(void **state)
{
    static const char server[] = "# Server\r\nredis_version:5.0.14\r\n";
    struct script_server *old = script_server_start();
    struct fixture *f = *state;
    struct relock_options options;
    struct relock_client *client;
    char replies[128];

    snprintf(replies, sizeof(replies), SCRIPT_HELLO "+OK\r\n$%zu\r\n%s\r\n", strlen(server),
             server);
    options = fixture_options(f, &(struct relock_options){.url = script_server_url(old)});
    script_accept(old);
    script_expect(old, "HELLO");
    script_expect(old, "CLIENT SETNAME *");
    script_expect(old, "INFO server");
    script_expect(old, "CLIENT INFO");
    script_answer(old, replies);
    script_expect_end(old);
    assert_result(relock_client_new(&options, &client), RELOCK_E_UNSUPPORTED);
    assert_true(log_wait_n(f->log, "this is Redis 5.0.14, which is too old", 1, SOON_MS));
    assert_true(script_played(old));
    assert_true(script_server_end(old));
}

/* ---- eviction ------------------------------------------------------------------------------ */

#define EVICTS "maxmemory-policy is "

static void set_memory(const char *limit, const char *policy)
{
    assert_int_equal(probe_int(probe, "CONFIG SET maxmemory %s", limit), 0);
    assert_int_equal(probe_int(probe, "CONFIG SET maxmemory-policy %s", policy), 0);
}

static void a_server_that_may_evict_a_lock_is_named_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock;

    begin_other(NULL);
    set_memory("100mb", "volatile-lru");
    lock = lock_there(f, 0);
    for (int i = 0; i < 3; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        drop_connections();
    }
    assert_true(log_wait_n(f->log, EVICTS "volatile-lru: ", 1, SOON_MS));
    assert_int_equal(log_count(f->log, "set maxmemory-policy noeviction"), 1);
}

static void connects_without_a_warning(struct fixture *f)
{
    assert_result(connect_other(f, 0), RELOCK_OK);
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_WARNING), 0);
}

/* The lines of a client have been written when it is freed. */
static void a_server_that_evicts_no_lock_causes_no_warning(void **state)
{
    struct fixture *f = *state;

    begin_other(NULL);
    set_memory("100mb", "noeviction");
    connects_without_a_warning(f);
    set_memory("0", "allkeys-lru");
    connects_without_a_warning(f);
}

static void a_user_without_the_right_to_info_is_not_told_of_eviction(void **state)
{
    struct fixture *f = *state;
    struct relock_options options;
    struct relock_client *client;

    begin_other(&(struct server_options){.tcp = true});
    set_memory("100mb", "allkeys-lru");
    assert_int_equal(probe_int(probe, "ACL SETUSER plain on >secret ~* &* +@all -info"), 0);
    options = options_of(f, 0);
    options.url = other->tcp_url;
    options.user = "plain";
    options.password = "secret";
    assert_result(relock_client_new(&options, &client), RELOCK_OK);
    relock_client_free(client);
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_WARNING), 0);
}

/* ---- replicas ------------------------------------------------------------------------------ */

static void a_replica_is_refused(void **state)
{
    struct fixture *f = *state;

    begin_other(NULL);
    be_replica();
    assert_result(connect_other(f, 0), RELOCK_E_SERVER);
    assert_true(log_wait_n(f->log, "this is a replica", 1, SOON_MS));
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_ERROR), 1);
    assert_int_equal(log_count(f->log, "use the address of its master"), 1);
}

/* The client must connect again. */
static void a_lazy_client_waits_until_a_replica_is_promoted(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock;
    struct actor *caller = actor_start();

    begin_other(NULL);
    be_replica();
    lock = lock_there(f, RELOCK_LAZY);
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_true(log_wait(f->log, "this is a replica", SOON_MS));
    be_master();
    assert_result(actor_lock(caller, lock), RELOCK_OK);
    assert_result(actor_unlock(caller, lock), RELOCK_OK);
}

static void calls_report_a_master_that_became_a_replica(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock;

    begin_other(NULL);
    lock = lock_there(f, 0);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    be_replica();
    drop_connections();
    log_clear(f->log);
    assert_true(log_wait(f->log, "this is a replica", SOON_MS)); /* also when nobody asks */
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_true(log_wait(f->log, "not acquired: Redis returned an error", SOON_MS));
    assert_int_equal(log_count(f->log, "You can't write"), 0);
    be_master();
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- rights -------------------------------------------------------------------------------- */

static void a_user_without_any_right_learns_of_a_replica(void **state)
{
    struct fixture *f = *state;
    struct relock_options options;
    struct relock_client *client;

    begin_other(NULL);
    assert_int_equal(probe_int(probe, "ACL SETUSER poor on >secret -@all"), 0);
    be_replica();
    options = options_of(f, 0);
    options.user = "poor";
    options.password = "secret";
    assert_result(relock_client_new(&options, &client), RELOCK_E_SERVER);
    assert_true(log_wait_n(f->log, "this is a replica", 1, SOON_MS));
}

/* Its role comes from INFO. */
static void a_server_without_hello_is_used_if_it_is_a_master(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock;

    begin_other(&(struct server_options){.args = {"--rename-command", "HELLO", ""}});
    lock = lock_there(f, 0);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(log_wait(f->log, ": HELLO: ", SOON_MS));
    be_replica();
    assert_result(connect_other(f, 0), RELOCK_E_SERVER);
    assert_true(log_wait(f->log, "this is a replica, which cannot grant locks", SOON_MS));
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_int_equal(log_count(f->log, "@user_script"), 0);
    be_master();
}

#define DEPLOYMENT_TEST(function) cmocka_unit_test_setup_teardown(function, fixture_begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DEPLOYMENT_TEST(a_sentinel_is_unsupported),
        DEPLOYMENT_TEST(a_sentinel_with_a_database_in_the_url_is_unsupported),
        DEPLOYMENT_TEST(a_node_of_a_cluster_is_unsupported),
        DEPLOYMENT_TEST(calls_report_a_cluster_node_that_replaced_the_server),
        DEPLOYMENT_TEST(a_server_that_is_too_old_is_unsupported),
        DEPLOYMENT_TEST(a_server_that_may_evict_a_lock_is_named_once),
        DEPLOYMENT_TEST(a_server_that_evicts_no_lock_causes_no_warning),
        DEPLOYMENT_TEST(a_user_without_the_right_to_info_is_not_told_of_eviction),
        DEPLOYMENT_TEST(a_replica_is_refused),
        DEPLOYMENT_TEST(a_lazy_client_waits_until_a_replica_is_promoted),
        DEPLOYMENT_TEST(calls_report_a_master_that_became_a_replica),
        DEPLOYMENT_TEST(a_user_without_any_right_learns_of_a_replica),
        DEPLOYMENT_TEST(a_server_without_hello_is_used_if_it_is_a_master),
    };

    return SERVER_TESTS_RUN(tests);
}
