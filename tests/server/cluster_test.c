/*
 * Locks in a cluster: each command goes to the node that has the slot of the key.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"

#include <stdio.h>

#define NAME "orders"

static const struct relock_options patient = {.command_timeout_ms = 20000, .recheck_ms = 60000};

static struct relock_lock *lock_of(struct clustered *c, const char *name)
{
    return fixture_lock(c->f, clustered_client(c, &patient), name);
}

static void locks_of_all_nodes_can_be_held_together(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(c, NULL);
    struct relock_lock *lock[9];
    char name[16];

    for (int i = 0; i < 9; i++) {
        (void)snprintf(name, sizeof(name), "orders:%d", i);
        lock[i] = fixture_lock(c->f, client, name);
        assert_result(relock_lock(lock[i]), RELOCK_OK);
        assert_true(probe_int(cluster_probe(c->cluster, name), "EXISTS %s", name) == 1);
    }
    for (int i = 0; i < 9; i++)
        assert_result(relock_unlock(lock[i]), RELOCK_OK);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(locks_of_all_nodes_can_be_held_together),
        CLUSTER_TEST(a_lock_is_found_where_its_slot_went),
        CLUSTER_TEST(a_lock_is_acquired_while_its_slot_moves),
        CLUSTER_TEST(a_held_lock_is_released_while_its_slot_moves),
        CLUSTER_TEST(a_lock_outlives_a_failover),
        CLUSTER_TEST(a_lock_is_acquired_after_its_master_died),
    };

    return CLUSTER_TESTS_RUN(tests);
}
