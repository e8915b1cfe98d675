/*
 * Owners of two clients wait for each other's locks, which are at different nodes of a cluster: one
 * of them is refused, also if a node was replaced meanwhile.
 */
#include "support/cluster_fixture.h"
#include "support/cycle.h"

#include <stdio.h>

#define DEADLOCK_MS 200
#define AT_ONCE_MS (DEADLOCK_MS + 500)

static const char *const orders = "orders";

/* A name whose lock is at another node. */
static void name_elsewhere(struct clustered *c, char name[24])
{
    size_t owner = cluster_owner(c->cluster, cluster_slot(c->cluster, orders));
    int i = 0;

    do
        (void)snprintf(name, 24, "bills:%d", i++);
    while (cluster_owner(c->cluster, cluster_slot(c->cluster, name)) == owner);
}

static struct cycle cycle_of(struct clustered *c, fixture_constructor_fn *make)
{
    const struct relock_options options = {.watchdog_timeout_ms = slow_ms(NEVER_MS),
                                           .recheck_ms = slow_ms(NEVER_MS),
                                           .command_timeout_ms = CLUSTER_FAILOVER_MS,
                                           .deadlock_ms = DEADLOCK_MS};
    struct relock_client *clients[2] = {clustered_client(c, &options),
                                        clustered_client(c, &options)};
    char bills[24];

    name_elsewhere(c, bills);
    return cycle_new(c->f, clients, (const char *const[2]){orders, bills}, make);
}

static void one_of_two_clients_is_refused_of(struct clustered *c, fixture_constructor_fn *make)
{
    struct cycle cycle = cycle_of(c, make);

    cycle_wait(&cycle, 0);
    cycle_wait(&cycle, 1);
    cycle_breaks(&cycle, slow_ms(AT_ONCE_MS + 5000));
}

static void one_of_two_clients_is_refused(void **state)
{
    one_of_two_clients_is_refused_of(*state, relock_lock_new);
    one_of_two_clients_is_refused_of(*state, relock_fairlock_new);
    one_of_two_clients_is_refused_of(*state, relock_wrlock_new);
}

/* The first wait was recorded before that. */
static void the_cycle_closes_after_a_master_died(void **state)
{
    struct clustered *c = *state;
    struct cycle cycle = cycle_of(c, relock_lock_new);
    size_t master = cluster_owner(c->cluster, cluster_slot(c->cluster, orders));

    cycle_wait(&cycle, 0);
    cluster_await_copy(c->cluster, master);
    server_kill(c->cluster->node[master].server);
    cluster_await(c->cluster);
    cycle_wait(&cycle, 1);
    cycle_breaks(&cycle, CLUSTER_FAILOVER_MS);
}

/* Both wait already, and the node of one lock changes. */
static void the_cycle_is_closed_while_a_slot_moves(void **state)
{
    struct clustered *c = *state;
    struct cycle cycle = cycle_of(c, relock_lock_new);
    int slot = cluster_slot(c->cluster, orders);
    size_t to = clustered_other(c, slot);

    cycle_wait(&cycle, 0);
    cluster_move_open(c->cluster, slot, to);
    cluster_move_keys(c->cluster, slot, to);
    cycle_wait(&cycle, 1);
    cluster_move_close(c->cluster, slot, to);
    cycle_breaks(&cycle, CLUSTER_FAILOVER_MS);
    cluster_await(c->cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(one_of_two_clients_is_refused),
        CLUSTER_TEST(the_cycle_closes_after_a_master_died),
        CLUSTER_TEST(the_cycle_is_closed_while_a_slot_moves),
    };

    return CLUSTER_TESTS_RUN(tests);
}
