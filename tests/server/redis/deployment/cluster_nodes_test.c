/* The cluster of support/cluster.h does what its header says. Plain hiredis is the client. */
#include "support/cluster_fixture.h"
#include "support/cluster_view.h"

#include <stdio.h>
#include <string.h>

#define KEY "{orders}"
#define OTHER_KEY "{orders}2"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void set(struct clustered *c, const char *key)
{
    assert_int_equal(probe_int(cluster_probe(c->cluster, key), "SET %s 7", key), 0);
}

static bool is_deleted(struct clustered *c, const char *key)
{
    return probe_int(cluster_probe(c->cluster, key), "DEL %s", key) == 1;
}

/* "-MOVED 12 127.0.0.1:7000", say. */
static bool is_sent(struct clustered *c, size_t by, const char *word, int slot, size_t to)
{
    char expected[64];

    snprintf(expected, sizeof(expected), "-%s %d 127.0.0.1:%d", word, slot,
             c->cluster->node[to].server->port);
    return begins(probe_text(c->cluster->node[by].probe, "GET %s", KEY), expected);
}

static void three_masters_own_all_slots_and_have_a_replica_each(void **state)
{
    struct clustered *c = *state;
    struct cluster_view view;

    cluster_view_any(c->cluster, &view);
    assert_int_equal(c->cluster->n, 6);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(view.owner[CLUSTER_SLOTS * i / 3], i);
        assert_int_equal(view.owner[CLUSTER_SLOTS * (i + 1) / 3 - 1], i);
        assert_int_equal(cluster_replica(c->cluster, (size_t)i), i + 3);
    }
}

static void a_key_is_with_the_owner_of_its_slot_only(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, KEY);

    set(c, KEY);
    assert_true(
        is_sent(c, clustered_other(c, slot), "MOVED", slot, cluster_owner(c->cluster, slot)));
    assert_true(is_deleted(c, KEY));
}

static void a_slot_that_is_half_moved_answers_ask_and_tryagain(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, KEY);
    size_t from = cluster_owner(c->cluster, slot), to = clustered_other(c, slot);
    struct probe *old = c->cluster->node[from].probe, *new = c->cluster->node[to].probe;

    set(c, KEY);
    set(c, OTHER_KEY);
    cluster_move_open(c->cluster, slot, to);
    assert_int_equal(probe_int(old, "GET %s", KEY), 7);
    cluster_move_key(c->cluster, KEY, to);
    assert_true(is_sent(c, from, "ASK", slot, to));
    assert_true(is_sent(c, to, "MOVED", slot, from));
    assert_int_equal(probe_int(new, "ASKING"), 0);
    assert_int_equal(probe_int(new, "GET %s", KEY), 7);
    assert_int_equal(probe_int(new, "ASKING"), 0);
    assert_true(begins(probe_list(new, "MGET %s %s", KEY, OTHER_KEY), "TRYAGAIN"));
    cluster_move_keys(c->cluster, slot, to);
    cluster_move_close(c->cluster, slot, to);
    cluster_await(c->cluster);
    assert_int_equal(cluster_owner(c->cluster, slot), to);
    assert_true(is_sent(c, from, "MOVED", slot, to));
    assert_true(is_deleted(c, KEY));
    assert_true(is_deleted(c, OTHER_KEY));
    cluster_move(c->cluster, slot, from);
}

static void a_move_can_be_abandoned(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, KEY);
    size_t from = cluster_owner(c->cluster, slot), to = clustered_other(c, slot);

    cluster_move_open(c->cluster, slot, to);
    assert_true(is_sent(c, from, "ASK", slot, to));
    cluster_mend(c->cluster);
    assert_int_equal(probe_int(c->cluster->node[from].probe, "EXISTS %s", KEY), 0);
}

static void a_master_that_is_told_to_fail_over_hands_its_data_on(void **state)
{
    struct clustered *c = *state;
    size_t old = cluster_owner(c->cluster, cluster_slot(c->cluster, KEY)), new;

    set(c, KEY);
    new = cluster_fail_over(c->cluster, old);
    assert_int_equal(cluster_owner(c->cluster, cluster_slot(c->cluster, KEY)), new);
    assert_int_equal(cluster_replica(c->cluster, new), old);
    assert_true(is_deleted(c, KEY));
}

static void a_master_that_dies_is_replaced(void **state)
{
    struct clustered *c = *state;
    size_t old = cluster_owner(c->cluster, cluster_slot(c->cluster, KEY));
    size_t new = cluster_replica(c->cluster, old);

    set(c, KEY);
    assert_int_equal(probe_int(cluster_probe(c->cluster, KEY), "WAIT 1 5000"), 1);
    server_kill(c->cluster->node[old].server);
    cluster_await(c->cluster);
    assert_int_equal(cluster_owner(c->cluster, cluster_slot(c->cluster, KEY)), new);
    cluster_mend(c->cluster);
    assert_int_equal(cluster_replica(c->cluster, new), old);
    assert_true(is_deleted(c, KEY));
}

static void a_master_and_its_replica_are_added_and_removed(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, KEY);
    size_t from = cluster_owner(c->cluster, slot), to = cluster_add(c->cluster);

    assert_int_equal(cluster_add_replica(c->cluster, to), 7);
    set(c, KEY);
    cluster_move(c->cluster, slot, to);
    assert_int_equal(cluster_owner(c->cluster, slot), to);
    cluster_move(c->cluster, slot, from);
    assert_true(is_deleted(c, KEY));
    cluster_remove(c->cluster, 7);
    cluster_remove(c->cluster, to);
    assert_int_equal(c->cluster->n, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(three_masters_own_all_slots_and_have_a_replica_each),
        CLUSTER_TEST(a_key_is_with_the_owner_of_its_slot_only),
        CLUSTER_TEST(a_slot_that_is_half_moved_answers_ask_and_tryagain),
        CLUSTER_TEST(a_move_can_be_abandoned),
        CLUSTER_TEST(a_master_that_is_told_to_fail_over_hands_its_data_on),
        CLUSTER_TEST(a_master_that_dies_is_replaced),
        CLUSTER_TEST(a_master_and_its_replica_are_added_and_removed),
    };

    return CLUSTER_TESTS_RUN(tests);
}
