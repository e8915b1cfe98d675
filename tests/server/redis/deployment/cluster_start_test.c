/*
 * How a client finds a cluster, and what it refuses.
 */
#include "support/child.h"
#include "support/cluster_line.h"
#include "support/cluster_view.h"

#include <stdio.h>
#include <string.h>

#define NAME "orders"

/* The client of a test; NULL and the result of the failure. */
static int connect_by(struct clustered *c, const char *url, unsigned flags,
                      struct relock_client **client)
{
    struct relock_options options = clustered_options(
        c,
        &(struct relock_options){.url = url, .flags = flags, .connect_timeout_ms = slow_ms(3000)});

    if (strncmp(url, "rediss", 6) != 0)
        options.tls_ca_file = NULL;
    *client = NULL;
    return relock_client_new(&options, client);
}

/* The url begins with `hosts`. */
static void works_by(struct clustered *c, const char *hosts)
{
    struct relock_lock *lock = NULL;
    struct relock_client *client;
    char url[256];

    (void)snprintf(url, sizeof(url), "redis+cluster://%s", hosts);
    assert_result(connect_by(c, url, 0, &client), RELOCK_OK);
    assert_result(relock_lock_new(client, NAME, &lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    relock_lock_free(lock);
    relock_client_free(client);
}

static void one_node_of_any_role_is_enough_to_find_the_others(void **state)
{
    struct clustered *c = *state;
    size_t master = cluster_owner(c->cluster, cluster_slot(c->cluster, NAME));
    size_t replica = cluster_replica(c->cluster, master);
    char hosts[64];

    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:%d", c->cluster->node[replica].server->port);
    works_by(c, hosts);
    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:1,127.0.0.1:%d",
                   c->cluster->node[master].server->port);
    works_by(c, hosts);
}

static void a_node_that_hangs_is_passed_over(void **state)
{
    struct clustered *c = *state;
    size_t master = cluster_owner(c->cluster, cluster_slot(c->cluster, NAME));
    size_t replica = cluster_replica(c->cluster, master);
    char hosts[64];

    server_pause(c->cluster->node[replica].server);
    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:%d,127.0.0.1:%d",
                   c->cluster->node[replica].server->port, c->cluster->node[master].server->port);
    works_by(c, hosts);
    server_resume(c->cluster->node[replica].server);
}

/* Whichever it is: a client loads its scripts at all of them. */
static void a_master_that_hangs_does_not_prevent_the_start(void **state)
{
    struct clustered *c = *state;
    struct cluster_view view;

    cluster_view_any(c->cluster, &view);
    for (size_t i = 0; i < c->cluster->n; i++) {
        struct relock_client *client;

        if (view.master[i] != (signed char)i)
            continue;
        server_pause(c->cluster->node[i].server);
        assert_result(connect_by(c, c->cluster->url, 0, &client), RELOCK_OK);
        server_resume(c->cluster->node[i].server);
        relock_client_free(client);
        cluster_await(c->cluster);
    }
}

static void a_single_server_is_no_cluster(void **state)
{
    struct clustered *c = *state;
    struct server *single = server_start(&(struct server_options){.tcp = true});
    struct relock_client *client;
    char url[64];

    (void)snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d", single->port);
    assert_result(connect_by(c, url, RELOCK_LAZY, &client), RELOCK_E_UNSUPPORTED);
    assert_true(log_wait(c->f->log, "this is no node of a cluster: use redis://", SOON_MS));
    server_stop(single);
}

static void hang(struct clustered *c)
{
    for (size_t i = 0; i < c->cluster->n; i++)
        server_pause(c->cluster->node[i].server);
}

static void go_on(struct clustered *c)
{
    for (size_t i = 0; i < c->cluster->n; i++)
        server_resume(c->cluster->node[i].server);
}

static bool is_ready(void *client)
{
    return relock_client_ready(client, NAME) == RELOCK_OK;
}

static bool ignore_lock(const struct relock_lock_info *info, void *arg)
{
    (void)info;
    (void)arg;
    return true;
}

static bool ignore_server(const struct relock_server_info *info, void *arg)
{
    (void)info;
    (void)arg;
    return true;
}

static void a_lazy_client_finds_its_cluster_later(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = NULL;
    struct relock_client *client;

    assert_result(connect_by(c, "redis+cluster://127.0.0.1:1", 0, &client), RELOCK_E_CONN);
    hang(c);
    assert_result(relock_client_new(&(struct relock_options){.url = c->cluster->url,
                                                             .connect_timeout_ms = 200,
                                                             .flags = RELOCK_LAZY,
                                                             .on_log = log_write,
                                                             .arg = c->f->log,
                                                             .command_timeout_ms = 20000},
                                    &client),
                  RELOCK_OK);
    /* Not that there are none. */
    assert_result(relock_locks(client, "*", ignore_lock, NULL), RELOCK_E_CONN);
    assert_result(relock_servers(client, ignore_server, NULL), RELOCK_E_CONN);
    go_on(c);
    assert_true(wait_until(is_ready, client, CLUSTER_FAILOVER_MS)); /* before its first lock */
    assert_result(relock_lock_new(client, NAME, &lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    relock_lock_free(lock);
    relock_client_free(client);
}

struct want {
    struct relock_lock *lock;
    uint64_t n;
};

static int take(void *arg)
{
    const struct want *want = arg;

    return relock_acquire(want->lock, &(struct relock_how){.permits = want->n, .wait_ms = NEVER_MS},
                          NULL);
}

/* Of a client that was made while the cluster hung, and waits for the map of the slots. Scripts
 * that publish plain messages, which reach no sharded inbox, would take all in the line for gone.
 */
static void the_first_call_of_a_lazy_client_leaves_the_line_alone(void **state)
{
    struct clustered *c = *state;
    struct want ours = {.n = 2}, large = {.n = 3}, late = {.n = 1};
    struct actor *first = actor_start(), *second = actor_start();
    struct relock_client *lazy;

    ours.lock = fixture_lock_of(c->f, cluster_line_client(c, ""), NAME, relock_semaphore_new);
    large.lock = fixture_lock_of(c->f, cluster_line_client(c, ""), NAME, relock_semaphore_new);
    assert_result(relock_semaphore_set(ours.lock, 3), RELOCK_OK);
    assert_result(take(&ours), RELOCK_OK);
    actor_begin(first, take, &large);
    assert_true(cluster_line_wait(c, NAME, 1));

    hang(c);
    lazy = cluster_line_client_with(
        c, "", (struct relock_options){.flags = RELOCK_LAZY, .connect_timeout_ms = 200});
    late.lock = fixture_lock_of(c->f, lazy, NAME, relock_semaphore_new);
    actor_begin(second, take, &late);
    assert_true(wait_for_waiters(lazy, 1));
    go_on(c);
    assert_true(cluster_line_wait(c, NAME, 2));
    assert_result(relock_unlock(ours.lock), RELOCK_OK);
    assert_result(actor_result(first), RELOCK_OK);
    assert_true(actor_is_busy(second));
    assert_result(actor_unlock(first, large.lock), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(actor_unlock(second, late.lock), RELOCK_OK);
    assert_int_equal(probe_int(cluster_probe(c->cluster, NAME), "DEL " NAME), 1);
}

static int end_parents_client(struct child *parent, void *arg)
{
    (void)parent;
    child_must(relock_client_free(arg) == NULL);
    return 0;
}

static void a_forked_child_leaves_the_cluster_of_its_parent_alone(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(c, NULL);
    struct relock_lock *lock = fixture_lock(c->f, client, NAME);
    struct child *child;

    assert_result(relock_lock(lock), RELOCK_OK);
    child = child_start(end_parents_client, client);
    assert_int_equal(child_wait(child, SOON_MS), 0);
    assert_result(relock_extend(lock, 0, 60000), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_name_with_two_slots_is_refused(void **state)
{
    static const char *const names[] = {"k{", "{}k", "a}b"};
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(c, NULL);
    struct relock_lock *lock = NULL;

    for (size_t i = 0; i < 3; i++) {
        assert_result(relock_lock_new(client, names[i], &lock), RELOCK_E_INVALID);
        assert_result(relock_fairlock_new(client, names[i], &lock), RELOCK_E_INVALID);
        assert_result(relock_rdlock_new(client, names[i], &lock), RELOCK_E_INVALID);
        (void)fixture_lock_of(c->f, client, names[i], relock_spinlock_new); /* has no channel */
    }
    assert_null(lock);
    assert_true(log_wait(c->f->log, "belong to different slots", SOON_MS));
    lock = fixture_lock(c->f, client, "k{x}");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_red_lock_has_no_member_in_a_cluster(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *members[] = {
        fixture_lock(c->f, clustered_client(c, NULL), NAME),
        fixture_lock(c->f, fixture_client(c->f, NULL), NAME),
        fixture_lock(c->f, fixture_client(c->f, NULL), NAME),
    };
    struct relock_lock *red = NULL;

    assert_result(relock_redlock_new(members, 3, &red), RELOCK_E_UNSUPPORTED);
    assert_null(red);
    assert_true(log_wait(c->f->log, "no red lock was made", SOON_MS));
}

static void a_multi_lock_has_members_in_any_slots(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(c, NULL);
    struct relock_lock *members[] = {
        fixture_lock(c->f, client, "a"),
        fixture_lock_of(c->f, client, "b", relock_fencedlock_new),
        fixture_lock_of(c->f, client, "c", relock_wrlock_new),
        fixture_lock(c->f, client, "d"),
    };
    struct relock_lock **multi = fixture_place(c->f);

    assert_result(relock_multilock_new(members, 4, multi), RELOCK_OK);
    assert_result(relock_lock(*multi), RELOCK_OK);
    assert_int_equal(probe_int(cluster_probe(c->cluster, "a"), "EXISTS a"), 1);
    assert_int_equal(probe_int(cluster_probe(c->cluster, "c"), "EXISTS c"), 1);
    assert_result(relock_unlock(*multi), RELOCK_OK);
    assert_int_equal(probe_int(cluster_probe(c->cluster, "b"), "DEL redisson_lock_token:{b}"), 1);
}

static void replicas_acknowledge_at_the_node_of_the_key(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(c, &(struct relock_options){.min_replicas = 1});
    struct relock_grant grant;
    char name[16];

    for (int i = 0; i < 6; i++) {
        struct relock_lock *lock;

        (void)snprintf(name, sizeof(name), "orders:%d", i);
        lock = fixture_lock(c->f, client, name);
        assert_result(relock_acquire(lock, &(struct relock_how){0}, &grant), RELOCK_OK);
        assert_int_equal(grant.acked_replicas, 1);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

/* Between a refresh that goes on, and threads that wait for it. */
static void a_client_ends_while_it_looks_for_a_master(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client =
        clustered_client(c, &(struct relock_options){.command_timeout_ms = 300});
    struct relock_lock *lock = fixture_lock(c->f, client, NAME);
    size_t owner = cluster_owner(c->cluster, cluster_slot(c->cluster, NAME));

    assert_result(fixture_acquire(lock, &(struct relock_how){0}), RELOCK_OK);
    (void)relock_unlock(lock); /* the reply may be late */
    server_kill(c->cluster->node[owner].server);
    assert_result(relock_trylock(lock), RELOCK_E_CONN);
    fixture_free_client(c->f, client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(one_node_of_any_role_is_enough_to_find_the_others),
        CLUSTER_TEST(a_node_that_hangs_is_passed_over),
        CLUSTER_TEST(a_master_that_hangs_does_not_prevent_the_start),
        CLUSTER_TEST(a_single_server_is_no_cluster),
        CLUSTER_TEST(a_lazy_client_finds_its_cluster_later),
        CLUSTER_TEST(the_first_call_of_a_lazy_client_leaves_the_line_alone),
        CLUSTER_TEST(a_forked_child_leaves_the_cluster_of_its_parent_alone),
        CLUSTER_TEST(a_name_with_two_slots_is_refused),
        CLUSTER_TEST(a_red_lock_has_no_member_in_a_cluster),
        CLUSTER_TEST(a_multi_lock_has_members_in_any_slots),
        CLUSTER_TEST(replicas_acknowledge_at_the_node_of_the_key),
        CLUSTER_TEST(a_client_ends_while_it_looks_for_a_master),
    };

    return CLUSTER_TESTS_RUN(tests);
}
