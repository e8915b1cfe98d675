/*
 * Owners of two clients wait for each other's locks, which are at different nodes of a cluster: one
 * of them is refused, also if a node was replaced meanwhile.
 */
#include "support/cluster_fixture.h"
#include "support/ring.h"

#include <stdio.h>

#define AT_ONCE_MS 6000 /* a machine that stands still */

static size_t owner_of(struct clustered *c, const char *key)
{
    return cluster_owner(c->cluster, cluster_slot(c->cluster, key));
}

/* Of a lock whose node is this one, or another. */
static void find_name(struct clustered *c, size_t node, bool is_there, char name[24])
{
    int i = 0;

    do
        (void)snprintf(name, 24, "orders:%d", i++);
    while ((owner_of(c, name) == node) != is_there);
}

struct two {
    struct ring ring;
    char hash[64]; /* the key of the first client's waits */
    size_t node;   /* that has it, and the lock of this client, but not the other lock */
    char names[2][24];
};

static struct two two_of(struct clustered *c, fixture_constructor_fn *make)
{
    const struct relock_options options = {.watchdog_timeout_ms = slow_ms(NEVER_MS),
                                           .recheck_ms = slow_ms(NEVER_MS),
                                           .command_timeout_ms = CLUSTER_FAILOVER_MS,
                                           .deadlock_ms = DEADLOCK_MS};
    struct relock_client *clients[2] = {clustered_client(c, &options),
                                        clustered_client(c, &options)};
    struct two two;

    (void)snprintf(two.hash, sizeof(two.hash), "relock_waits:{%s}", relock_client_id(clients[0]));
    two.node = owner_of(c, two.hash);
    find_name(c, two.node, true, two.names[0]);
    find_name(c, two.node, false, two.names[1]);
    two.ring = ring_of_locks(c->f, clients, (const char *[]){two.names[0], two.names[1]}, 2, make);
    return two;
}

static void one_of_two_clients_is_refused_of(struct clustered *c, fixture_constructor_fn *make)
{
    struct two two = two_of(c, make);

    ring_wait(&two.ring, 0);
    ring_wait(&two.ring, 1);
    (void)ring_assert_one_is_refused_within(&two.ring, slow_ms(AT_ONCE_MS));
    actor_end_all();
}

static void one_of_two_clients_is_refused(void **state)
{
    one_of_two_clients_is_refused_of(*state, relock_lock_new);
    one_of_two_clients_is_refused_of(*state, relock_fairlock_new);
    one_of_two_clients_is_refused_of(*state, relock_wrlock_new);
}

/* `command` of as many semaphores as the test may use, with one permit each. */
static void run_of_all(struct clustered *c, const char *command)
{
    char name[24];

    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "orders:%d", i);
        (void)probe_text(c->cluster->node[owner_of(c, name)].probe, command, name);
    }
}

/* Each client asks one node for the permits, and another one for the waits of their owners. */
static void owners_of_permits_are_found_at_other_nodes(void **state)
{
    struct clustered *c = *state;

    run_of_all(c, "SET %s 1");
    one_of_two_clients_is_refused_of(c, relock_semaphore_new);
    run_of_all(c, "DEL %s");
}

/* The node has the hash of the first wait, and the lock that the second one is for. */
static void the_cycle_closes_after_a_master_died(void **state)
{
    struct clustered *c = *state;
    struct two two = two_of(c, relock_lock_new);

    ring_wait(&two.ring, 0);
    assert_true(probe_wait_key(c->cluster->node[two.node].probe, two.hash));
    clustered_kill(c, two.node);
    ring_wait(&two.ring, 1);
    (void)ring_assert_one_is_refused_within(&two.ring, CLUSTER_FAILOVER_MS);
    actor_end_all();
}

static void the_cycle_is_closed_while_a_slot_moves(void **state)
{
    struct clustered *c = *state;
    struct two two = two_of(c, relock_lock_new);
    int slot = cluster_slot(c->cluster, two.names[0]);
    size_t to = clustered_other(c, slot);

    ring_wait(&two.ring, 0);
    cluster_move_open(c->cluster, slot, to);
    cluster_move_keys(c->cluster, slot, to);
    ring_wait(&two.ring, 1);
    cluster_move_close(c->cluster, slot, to);
    (void)ring_assert_one_is_refused_within(&two.ring, CLUSTER_FAILOVER_MS);
    actor_end_all();
    cluster_await(c->cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(one_of_two_clients_is_refused),
        CLUSTER_TEST(owners_of_permits_are_found_at_other_nodes),
        CLUSTER_TEST(the_cycle_closes_after_a_master_died),
        CLUSTER_TEST(the_cycle_is_closed_while_a_slot_moves),
    };

    return CLUSTER_TESTS_RUN(tests);
}
