/* The I/O thread, played here, looks for nodes of a cluster that hold no keys and frees them. */
#include "redis/io/io.h"

#include "redis/io/private.h"
#include "redis/server/loop.h"
#include "unit/common/two_nodes.h"

#include "base/clock.h"

static struct relock_topology_ops ops;
static unsigned n_removals;
static bool is_referenced;

static bool uses(struct relock_topology *topology, const struct relock_node *node)
{
    return node == atomic_load(&topology->nodes);
}

static bool remove_node(struct relock_topology *topology, struct relock_node *node)
{
    (void)topology;
    n_removals++;
    assert_ptr_equal(node, &cluster.node[1]);
    assert_null(node->pipeline);
    assert_null(node->pubsub);
    if (!is_referenced)
        cluster.node[0].next = NULL;
    return !is_referenced;
}

static void on_up(void *arg)
{
    (void)arg;
}

static uint64_t turn(void *arg)
{
    (void)arg;
    return RELOCK_NEVER;
}

static void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    (void)arg;
    (void)event;
    (void)text;
    (void)len;
}

/* The second node has no slots. The first one is opened; the loop does not run. */
static int begin(void **state)
{
    struct relock_topology_io io = {
        .answer_ms = slow_ms(SOON_MS), .ping_ms = slow_ms(SOON_MS), .up = on_up};
    int r = two_nodes_begin(state);

    n_removals = 0;
    is_referenced = false;
    ops = *cluster.topology.ops;
    ops.uses = uses;
    ops.remove = remove_node;
    cluster.topology.ops = &ops;
    assert_int_equal(relock_loop_new(turn, NULL, &cluster.loop), RELOCK_OK);
    io.loop = cluster.loop;
    assert_int_equal(relock_node_io_start(&cluster.topology, &io), RELOCK_OK);
    return r;
}

static int end(void **state)
{
    cluster.node[0].next = &cluster.node[1];
    return two_nodes_end(state);
}

/* Looks once more, although it is not due. Returns whether there is another look to come. */
static bool looks(void)
{
    cluster.topology.look_ms = 0;
    return relock_node_io_follow(&cluster.topology) != RELOCK_NEVER;
}

static void a_node_without_keys_is_freed(void **state)
{
    (void)state;
    assert_false(looks());
    assert_int_equal(n_removals, 1);
    assert_false(looks());
    assert_int_equal(n_removals, 1);
}

static void a_node_that_was_used_since_the_last_look_is_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        atomic_store(&cluster.node[1].was_used, true);
        assert_true(looks());
    }
    assert_int_equal(n_removals, 0);
    assert_false(looks());
    assert_int_equal(n_removals, 1);
}

static void a_node_with_a_reference_is_looked_at_again(void **state)
{
    (void)state;
    is_referenced = true;
    assert_true(looks());
    assert_true(looks());
    is_referenced = false;
    assert_false(looks());
    assert_int_equal(n_removals, 3);
}

static void between_two_looks_is_some_time(void **state)
{
    uint64_t next_ms;

    (void)state;
    is_referenced = true;
    assert_true(looks());
    cluster.topology.look_ms = relock_clock_now_ms() + 10 * SOON_MS;
    next_ms = cluster.topology.look_ms;
    assert_true(relock_node_io_follow(&cluster.topology) == next_ms);
    assert_int_equal(n_removals, 1);
}

/* A command that was sent on to it is repeated when it is connected. */
static void a_node_that_is_being_connected_is_kept(void **state)
{
    (void)state;
    assert_int_equal(cluster.topology.io.open(&cluster.topology, &cluster.node[1]), RELOCK_OK);
    assert_true(looks());
    assert_int_equal(n_removals, 0);
    relock_pipeline_close_idle(cluster.node[1].pipeline);
    assert_false(looks());
    assert_int_equal(n_removals, 1);
}

static void a_node_with_a_channel_is_kept(void **state)
{
    struct relock_subscriber *subscriber;

    (void)state;
    assert_int_equal(cluster.topology.io.open(&cluster.topology, &cluster.node[1]), RELOCK_OK);
    relock_pipeline_close_idle(cluster.node[1].pipeline);
    subscriber = relock_pubsub_subscribe(cluster.node[1].pubsub, "orders", 6, on_channel, NULL);
    assert_non_null(subscriber);
    assert_true(looks());
    assert_int_equal(n_removals, 0);
    relock_pubsub_unsubscribe(subscriber);
    assert_false(looks());
    assert_int_equal(n_removals, 1);
}

#define UNUSED_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNUSED_TEST(a_node_without_keys_is_freed),
        UNUSED_TEST(a_node_that_was_used_since_the_last_look_is_kept),
        UNUSED_TEST(a_node_with_a_reference_is_looked_at_again),
        UNUSED_TEST(between_two_looks_is_some_time),
        UNUSED_TEST(a_node_that_is_being_connected_is_kept),
        UNUSED_TEST(a_node_with_a_channel_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
