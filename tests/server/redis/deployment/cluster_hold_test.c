/*
 * Holds in a cluster: renewals and releases in the background follow the slot of their key.
 */
#include "support/cluster_fixture.h"
#include "support/multi.h"

#include <stdio.h>

#define NAME "orders"
#define LEASE_MS 2000 /* outlives a second in which a machine stands still */

/* Longer than a failover takes. */
#define LONG_LEASE_MS 6000

/* Acquires a lock with a lease that the watchdog renews. */
static struct clustered_lock begin(struct clustered *c, uint64_t lease_ms)
{
    struct clustered_lock hold = clustered_lock(c, lease_ms);

    assert_result(relock_lock(hold.lock), RELOCK_OK);
    return hold;
}

/* At least one of these renewals was sent after this call. */
static void is_renewed(const struct clustered_lock *hold)
{
    assert_true(wait_for_renewals(hold->client, stats_of(hold->client).renewed, 2));
    assert_result(relock_check(hold->lock, 0, NULL), RELOCK_OK);
}

static void is_released(struct clustered *c, const struct clustered_lock *hold)
{
    assert_result(relock_unlock(hold->lock), RELOCK_OK);
    assert_int_equal(losses_count(c->f->losses), 0);
}

/* A script may have keys of one slot only. */
static void holds_of_one_slot_are_renewed_together_and_others_apart(void **state)
{
    enum { TOGETHER = 40, APART = 10, N = TOGETHER + APART };
    struct clustered *c = *state;
    struct relock_client *client =
        clustered_client(c, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LONG_LEASE_MS),
                                                     .flags = RELOCK_NO_TRACKING});
    struct probe *probe = cluster_probe(c->cluster, NAME);
    struct relock_lock *locks[N];
    long long scripts;
    char name[32];

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), i < TOGETHER ? "{" NAME "}:%d" : "bills:%d", i);
        locks[i] = fixture_lock(c->f, client, name);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
    scripts = probe_script_calls(probe);
    assert_true(wait_for_renewals(client, stats_of(client).renewed, N));
    assert_true(probe_script_calls(probe) - scripts < TOGETHER);
    for (int i = 0; i < N; i++)
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
    assert_int_equal(losses_count(c->f->losses), 0);
}

static void a_lease_is_renewed_where_its_slot_went(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = begin(c, LEASE_MS);

    cluster_move(c->cluster, hold.slot, clustered_other(c, hold.slot));
    is_renewed(&hold);
    is_released(c, &hold);
}

static void a_lease_is_renewed_while_its_slot_moves(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = begin(c, LEASE_MS);
    size_t to = clustered_other(c, hold.slot);

    cluster_move_open(c->cluster, hold.slot, to);
    is_renewed(&hold);
    cluster_move_key(c->cluster, NAME, to);
    is_renewed(&hold);
    cluster_move_close(c->cluster, hold.slot, to);
    is_renewed(&hold);
    is_released(c, &hold);
}

/* Its renewals count only if a replica has them. Each of them follows ASK, too. */
static void a_replica_acknowledges_renewals_while_their_slot_moves(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = {
        .client =
            clustered_client(c, &(struct relock_options){.min_replicas = 1,
                                                         .replica_timeout_ms = SOON_MS,
                                                         .watchdog_timeout_ms = slow_ms(LEASE_MS)}),
        .slot = cluster_slot(c->cluster, NAME),
    };
    size_t to = clustered_other(c, hold.slot);

    hold.lock = fixture_lock(c->f, hold.client, NAME);
    assert_result(relock_lock(hold.lock), RELOCK_OK);
    is_renewed(&hold);
    cluster_move_open(c->cluster, hold.slot, to);
    cluster_move_key(c->cluster, NAME, to);
    is_renewed(&hold);
    cluster_move_close(c->cluster, hold.slot, to);
    is_renewed(&hold);
    is_released(c, &hold);
}

static void a_lease_is_renewed_after_a_planned_failover(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = begin(c, LEASE_MS);

    (void)cluster_fail_over(c->cluster, hold.owner);
    is_renewed(&hold);
    is_released(c, &hold);
}

static void a_lease_is_renewed_after_its_master_died(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = begin(c, LONG_LEASE_MS);

    clustered_kill(c, hold.owner);
    is_renewed(&hold);
    is_released(c, &hold);
}

static void a_lease_is_renewed_after_its_master_hung(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = begin(c, LONG_LEASE_MS);

    cluster_await_copy(c->cluster, hold.owner);
    server_pause(c->cluster->node[hold.owner].server);
    cluster_await(c->cluster);
    is_renewed(&hold);
    is_released(c, &hold);
}

/* The members are in slots of different masters. */
/* Also while the server accepts no other connection. */
static void a_lease_is_renewed_over_a_connection_of_the_calls(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = begin(c, LEASE_MS);
    struct probe *probe = cluster_probe(c->cluster, NAME);

    is_renewed(&hold);
    assert_int_equal(probe_int(probe, "CONFIG SET maxclients 1"), 0);
    assert_true(probe_kill_newest(probe));
    assert_true(log_wait(c->f->log, "so they go over one of the calls", SOON_MS));
    is_renewed(&hold);
    is_released(c, &hold);
    assert_int_equal(probe_int(probe, "CONFIG SET maxclients 10000"), 0);
}

static void a_multi_lock_is_held_after_a_master_of_one_member_died(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = begin(c, LONG_LEASE_MS), other = {.slot = hold.slot};
    struct relock_lock *both;
    char name[32];

    for (int i = 0; cluster_owner(c->cluster, other.slot) == hold.owner; i++) {
        snprintf(name, sizeof(name), "parcels %d", i);
        other.slot = cluster_slot(c->cluster, name);
    }
    assert_result(relock_unlock(hold.lock), RELOCK_OK);
    other.lock = fixture_lock(c->f, hold.client, name);
    both = fixture_multi(c->f, hold.lock, other.lock, NULL);
    assert_result(relock_lock(both), RELOCK_OK);
    clustered_kill(c, hold.owner);
    hold.lock = both;
    is_renewed(&hold);
    assert_int_equal(probe_int(cluster_probe(c->cluster, NAME), "EXISTS " NAME), 1);
    assert_int_equal(probe_int(cluster_probe(c->cluster, name), "EXISTS %s", name), 1);
    is_released(c, &hold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(holds_of_one_slot_are_renewed_together_and_others_apart),
        CLUSTER_TEST(a_lease_is_renewed_where_its_slot_went),
        CLUSTER_TEST(a_lease_is_renewed_while_its_slot_moves),
        CLUSTER_TEST(a_replica_acknowledges_renewals_while_their_slot_moves),
        CLUSTER_TEST(a_lease_is_renewed_after_a_planned_failover),
        CLUSTER_TEST(a_lease_is_renewed_after_its_master_died),
        CLUSTER_TEST(a_lease_is_renewed_after_its_master_hung),
        CLUSTER_TEST(a_lease_is_renewed_over_a_connection_of_the_calls),
        CLUSTER_TEST(a_multi_lock_is_held_after_a_master_of_one_member_died),
    };

    return CLUSTER_TESTS_RUN(tests);
}
