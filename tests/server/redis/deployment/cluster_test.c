/*
 * Locks in a cluster: each command goes to the node that has the slot of the key.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"
#include "support/probe_counts.h"

#include <stdio.h>
#include <string.h>

#define NAME "orders"
#define COUNTER "redisson_lock_token:{orders}"

static const struct relock_options patient = {.command_timeout_ms = 20000, .recheck_ms = 60000};

static struct relock_lock *lock_of(struct clustered *c, const char *name)
{
    return fixture_lock(c->f, clustered_client(c, &patient), name);
}

static void locks_of_all_nodes_can_be_held_together(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(c, NULL);
    struct relock_lock *locks[CLUSTERED_LOCKS];

    clustered_lock_all(c, client, locks);
    clustered_unlock_all(locks);
}

static void a_forked_child_closes_the_connections_to_all_nodes(void **state)
{
    struct clustered *c = *state;
    int64_t n_before = child_descriptors(NULL);
    struct relock_client *client = clustered_client(c, NULL);
    struct relock_lock *locks[CLUSTERED_LOCKS];

    clustered_lock_all(c, client, locks);
    assert_int_equal(child_descriptors(client), n_before);
    clustered_unlock_all(locks);
}

static bool count_lock(const struct relock_lock_info *info, void *arg)
{
    int *n = arg;

    *n += info->kind == RELOCK_KIND_REENTRANT && strcmp(info->client_name, "worker:1") == 0;
    return true;
}

static void locks_of_all_nodes_are_found(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client =
        clustered_client(c, &(struct relock_options){.client_name = "worker:1"});
    struct relock_lock *locks[CLUSTERED_LOCKS];
    int n = 0, n_exact = 0;

    clustered_lock_all(c, client, locks);
    for (int i = 0; i < CLUSTERED_LOCKS; i++)
        assert_result(relock_locks(client, relock_lock_name(locks[i]), count_lock, &n_exact),
                      RELOCK_OK);
    assert_int_equal(n_exact, CLUSTERED_LOCKS);
    assert_result(relock_locks(client, "*", count_lock, &n), RELOCK_OK);
    assert_int_equal(n, CLUSTERED_LOCKS);
    clustered_unlock_all(locks);
}

#define N_APART 60 /* locks in as many slots, and held by as many clients */

static bool count_apart(const struct relock_lock_info *info, void *arg)
{
    int *n = arg;

    *n += info->holder.n_holders == 1 && info->held_ms >= 1000;
    return true;
}

/* Of all masters: scripts, and how often data came over their connections. */
static void count_work(struct clustered *c, long long *n_scripts, long long *n_reads)
{
    *n_scripts = *n_reads = 0;
    for (size_t i = 0; i < c->cluster->n; i++) {
        *n_scripts += probe_calls(c->cluster->node[i].probe, "evalsha");
        *n_reads += probe_reads(c->cluster->node[i].probe);
    }
}

/* Scripts for locks and ages of as many slots. */
static void a_list_sends_the_scripts_for_a_master_together(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(c, NULL);
    char name[32], id[64], record[96];
    long long n_scripts, n_reads, n_scripts_before, n_reads_before;
    int n = 0;

    for (int i = 0; i < N_APART; i++) {
        (void)snprintf(name, sizeof(name), "orders:%d", i);
        (void)snprintf(id, sizeof(id), "a7c3b6f0-0000-4000-8000-%012d", i);
        (void)snprintf(record, sizeof(record), "relock_waits:{%s}:since", id);
        assert_int_equal(probe_int(cluster_probe(c->cluster, name), "HSET %s %s:1 1", name, id), 1);
        assert_int_equal(probe_int(cluster_probe(c->cluster, record),
                                   "HSET %s client %s,worker 1 1000", record, id),
                         2);
    }
    assert_result(relock_locks(client, "*", count_apart, &n), RELOCK_OK);
    assert_int_equal(n, N_APART);
    count_work(c, &n_scripts_before, &n_reads_before);
    assert_result(relock_locks(client, "*", count_apart, &n), RELOCK_OK);
    count_work(c, &n_scripts, &n_reads);
    n_scripts -= n_scripts_before;
    n_reads -= n_reads_before;
    assert_int_equal(n, 2 * N_APART);
    print_message("%d locks: %lld scripts, %lld reads\n", N_APART, n_scripts, n_reads);
    assert_true(n_scripts > 3 * N_APART / 2); /* a few names share a slot */
    assert_true(n_reads < N_APART);           /* some for SCAN, renewals and these counts */
    for (int i = 0; i < N_APART; i++) {
        (void)snprintf(name, sizeof(name), "orders:%d", i);
        (void)snprintf(record, sizeof(record), "relock_waits:{a7c3b6f0-0000-4000-8000-%012d}:since",
                       i);
        assert_int_equal(probe_int(cluster_probe(c->cluster, name), "DEL %s", name), 1);
        assert_int_equal(probe_int(cluster_probe(c->cluster, record), "DEL %s", record), 1);
    }
}

static bool count_any(const struct relock_lock_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return true;
}

static bool is_seen_whole(void *arg)
{
    int n = 0;

    return relock_client_ready(arg, NULL) == RELOCK_OK &&
           relock_locks(arg, "*", count_any, &n) == RELOCK_OK;
}

/* One of each master. */
static const int some_slots[] = {0, CLUSTER_SLOTS / 2, CLUSTER_SLOTS - 1};

static struct relock_client *client_that_looks(struct clustered *c)
{
    struct relock_client *client = clustered_client(c, NULL);

    assert_true(wait_until(is_seen_whole, client, SOON_MS)); /* it connects by itself */
    return client;
}

/* It has no lock whose commands would find out, and its I/O thread only ever needed one node. */
static void a_client_that_only_looks_learns_who_replaced_a_master(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = client_that_looks(c);

    for (size_t i = 0; i < sizeof(some_slots) / sizeof(*some_slots); i++) {
        clustered_kill(c, cluster_owner(c->cluster, some_slots[i]));
        assert_true(wait_until(is_seen_whole, client, SOON_MS));
        cluster_mend(c->cluster);
    }
}

static void a_client_that_only_looks_learns_that_a_master_is_a_replica(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = client_that_looks(c);

    for (size_t i = 0; i < sizeof(some_slots) / sizeof(*some_slots); i++) {
        size_t old = cluster_owner(c->cluster, some_slots[i]);

        (void)cluster_fail_over(c->cluster, old);
        (void)probe_int(c->cluster->node[old].probe, "CLIENT KILL TYPE normal");
        assert_true(wait_until(is_seen_whole, client, SOON_MS));
    }
}

static bool is_left_alone(void *arg)
{
    return probe_n_clients(arg, " name=relock:") == 0;
}

static void a_node_without_slots_keeps_no_connection(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_of(c, NAME);
    size_t old = cluster_owner(c->cluster, cluster_slot(c->cluster, NAME));

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_false(is_left_alone(c->cluster->node[old].probe));
    cluster_fail_over(c->cluster, old);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(wait_until(is_left_alone, c->cluster->node[old].probe, SOON_MS));
}

static void a_lock_is_found_where_its_slot_went(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_of(c, NAME);
    int slot = cluster_slot(c->cluster, NAME);

    assert_result(relock_lock(lock), RELOCK_OK);
    cluster_move(c->cluster, slot, clustered_other(c, slot));
    assert_result(relock_extend(lock, 0, 60000), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_lock_is_acquired_while_its_slot_moves(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_of(c, NAME);
    int slot = cluster_slot(c->cluster, NAME);
    size_t to = clustered_other(c, slot);

    cluster_move_open(c->cluster, slot, to);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    cluster_move_close(c->cluster, slot, to);
}

static void a_held_lock_is_released_while_its_slot_moves(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_of(c, NAME);
    int slot = cluster_slot(c->cluster, NAME);
    size_t to = clustered_other(c, slot);

    assert_result(relock_lock(lock), RELOCK_OK);
    cluster_move_open(c->cluster, slot, to);
    assert_result(relock_lock(lock), RELOCK_OK);
    cluster_move_key(c->cluster, NAME, to);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    cluster_move_close(c->cluster, slot, to);
}

static void a_lock_outlives_a_failover(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_of(c, NAME);
    size_t owner = cluster_owner(c->cluster, cluster_slot(c->cluster, NAME));

    assert_result(relock_lock(lock), RELOCK_OK);
    (void)cluster_fail_over(c->cluster, owner);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_lock_is_acquired_after_its_master_died(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_of(c, NAME);
    size_t owner = cluster_owner(c->cluster, cluster_slot(c->cluster, NAME));

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    server_kill(c->cluster->node[owner].server);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    cluster_await(c->cluster);
}

/* Its counter may still be at the old node, so a token drawn at the new one could be an old one. */
static void a_fenced_lock_waits_until_its_slot_has_moved(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(c, &patient);
    struct relock_lock *lock = fixture_lock_of(c->f, client, NAME, relock_fencedlock_new);
    struct actor *actor = actor_start();
    int slot = cluster_slot(c->cluster, NAME);
    size_t from = cluster_owner(c->cluster, slot);
    size_t to = clustered_other(c, slot);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    cluster_move_open(c->cluster, slot, to);
    actor_begin_acquire(actor, lock, &(struct relock_how){.wait_ms = RELOCK_FOREVER});
    assert_true(cluster_wait_refusals(c->cluster, from, 3));
    assert_true(actor_is_busy(actor));
    cluster_move_keys(c->cluster, slot, to);
    cluster_move_close(c->cluster, slot, to);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_int_equal(actor_grant(actor).fencing_token, 2);
    assert_result(actor_unlock(actor, lock), RELOCK_OK);
    assert_int_equal(probe_int(cluster_probe(c->cluster, NAME), "DEL " COUNTER), 1);
}

/* Not unanswered: at the deadline of a slow machine, an attempt may be in flight. */
static int try_answered(struct relock_lock *lock)
{
    uint64_t until_ms = deadline_in(SOON_MS);
    int r;

    do
        r = relock_trylock(lock);
    while (r == RELOCK_E_CONN && now_ms() < until_ms);
    return r;
}

/* The level of the reader, which keeps its hold alive, stays behind. */
static void a_reader_counts_while_its_keys_are_at_two_nodes(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(c, &patient);
    struct relock_client *other =
        clustered_client(c, &(struct relock_options){.command_timeout_ms = 500});
    struct relock_lock *reader = fixture_lock_of(c->f, client, NAME, relock_rdlock_new);
    struct relock_lock *writer = fixture_lock_of(c->f, other, NAME, relock_wrlock_new);
    struct relock_lock *after = fixture_lock_of(c->f, client, NAME, relock_wrlock_new);
    int slot = cluster_slot(c->cluster, NAME);
    size_t to = clustered_other(c, slot);

    assert_result(relock_lock(reader), RELOCK_OK);
    cluster_move_open(c->cluster, slot, to);
    cluster_move_key(c->cluster, NAME, to);
    assert_result(try_answered(writer), RELOCK_E_SERVER);
    cluster_move_keys(c->cluster, slot, to);
    cluster_move_close(c->cluster, slot, to);
    assert_result(try_answered(writer), RELOCK_BUSY);
    assert_result(relock_unlock(reader), RELOCK_OK);
    assert_result(relock_lock(after), RELOCK_OK);
    assert_result(relock_unlock(after), RELOCK_OK);
}

static void a_lock_is_found_at_a_new_master(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_of(c, NAME);
    int slot = cluster_slot(c->cluster, NAME);
    size_t from = cluster_owner(c->cluster, slot);
    size_t new;

    assert_result(relock_lock(lock), RELOCK_OK);
    new = cluster_add(c->cluster);
    cluster_move(c->cluster, slot, new);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    cluster_move(c->cluster, slot, from);
    cluster_remove(c->cluster, new);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(locks_of_all_nodes_can_be_held_together),
        CLUSTER_TEST(a_forked_child_closes_the_connections_to_all_nodes),
        CLUSTER_TEST(locks_of_all_nodes_are_found),
        CLUSTER_TEST(a_list_sends_the_scripts_for_a_master_together),
        CLUSTER_TEST(a_client_that_only_looks_learns_who_replaced_a_master),
        CLUSTER_TEST(a_client_that_only_looks_learns_that_a_master_is_a_replica),
        CLUSTER_TEST(a_node_without_slots_keeps_no_connection),
        CLUSTER_TEST(a_lock_is_found_where_its_slot_went),
        CLUSTER_TEST(a_lock_is_acquired_while_its_slot_moves),
        CLUSTER_TEST(a_held_lock_is_released_while_its_slot_moves),
        CLUSTER_TEST(a_fenced_lock_waits_until_its_slot_has_moved),
        CLUSTER_TEST(a_reader_counts_while_its_keys_are_at_two_nodes),
        CLUSTER_TEST(a_lock_is_found_at_a_new_master),
        CLUSTER_TEST(a_lock_outlives_a_failover),
        CLUSTER_TEST(a_lock_is_acquired_after_its_master_died),
    };

    return CLUSTER_TESTS_RUN(tests);
}
