/* Nodes of a cluster are made, used by reference, and freed. No server runs. */
#include "redis/deployment/private.h"

#include "redis/connect/conn_id.h"
#include "support/actor.h"
#include "support/late.h"
#include "support/log.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define THREADS 4
#define ROUNDS 2000
#define ALL 0, RELOCK_SLOTS - 1

static struct log *lines;
static struct relock_log sink = {.level = RELOCK_LOG_DEBUG, .sink = log_write};
static struct relock_server cluster;
static struct relock_members members;
static _Atomic(struct relock_node *) list;
static const struct relock_origin origin = {"127.0.0.1", ""};
static atomic_bool stops;

static int begin(void **state)
{
    struct relock_options options = {
        .url = "redis+cluster://127.0.0.1:1", .connect_timeout_ms = 1, .command_timeout_ms = 1};

    (void)state;
    lines = log_new();
    sink.arg = lines;
    atomic_store(&list, NULL);
    atomic_store(&stops, false);
    assert_int_equal(relock_server_init(&cluster, &options, "id", &sink), RELOCK_OK);
    relock_members_init(&members, &cluster, 1, &list);
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_members_deinit(&members);
    relock_server_deinit(&cluster);
    lines = log_free(lines);
    return 0;
}

static struct relock_node *at(uint16_t port)
{
    struct relock_address address = {"127.0.0.1", port};
    struct relock_node *node = NULL;

    (void)relock_members_at(&members, &address, &origin, &node);
    return node;
}

/* The slots are at this port from now on. */
static struct relock_node *assign(unsigned first, unsigned last, uint16_t port)
{
    struct relock_slot_range range = {first, last, {"127.0.0.1", port}};
    struct relock_node *node = NULL;

    assert_int_equal(relock_members_assign(&members, &range, &origin, &node), RELOCK_OK);
    relock_members_drop(node);
    return node;
}

static unsigned count(void)
{
    unsigned n = 0;

    for (struct relock_node *node = atomic_load(&list); node; node = node->next)
        n++;
    return n;
}

/* ---- one thread ---------------------------------------------------------------------------- */

static void a_node_with_slots_is_not_removed(void **state)
{
    struct relock_node *node = assign(ALL, 1);

    (void)state;
    assert_false(relock_members_remove(&members, node));
    assign(1, RELOCK_SLOTS - 1, 2);
    assert_false(relock_members_remove(&members, node));
    assign(ALL, 2);
    assert_true(relock_members_remove(&members, node));
    assert_int_equal(count(), 1);
    assert_int_equal(log_count(lines, "127.0.0.1:1 has no slots any more"), 1);
}

static void a_node_that_a_call_uses_is_not_removed(void **state)
{
    struct relock_node *node;

    (void)state;
    assign(ALL, 1);
    node = relock_members_take(&members, 7);
    assign(ALL, 2);
    assert_false(relock_members_remove(&members, node));
    assert_string_equal(node->server->label, "127.0.0.1:1");
    relock_members_drop(node);
    assert_true(relock_members_remove(&members, node));
}

static void a_node_that_a_redirection_has_named_is_not_removed(void **state)
{
    struct relock_node *node = at(3);

    (void)state;
    assert_false(relock_members_remove(&members, node));
    relock_members_drop(node);
    assert_true(relock_members_remove(&members, node));
}

/* A command that it was made for may still run there, if the slots come back. */
static void a_node_is_kept_as_long_as_the_id_of_a_connection_to_it(void **state)
{
    struct relock_node *node = assign(ALL, 1);
    struct relock_conn_id *fence = relock_conn_id_new(node->server, "", 7, "127.0.0.1:9", 11);

    (void)state;
    assert_ptr_equal(relock_conn_id_node(fence), node);
    assign(ALL, 2);
    (void)relock_conn_id_ref(fence);
    relock_conn_id_unref(fence);
    assert_false(relock_members_remove(&members, node));
    relock_conn_id_unref(fence);
    assert_true(relock_members_remove(&members, node));
}

static void the_nodes_of_a_survey_are_not_removed(void **state)
{
    struct relock_node *nodes[RELOCK_MEMBERS_MAX];

    (void)state;
    assign(ALL, 1);
    assign(1, 1, 2);
    relock_members_drop(at(3));
    assert_int_equal(relock_members_with_slots(&members, nodes), 2);
    assign(ALL, 4);
    assert_false(relock_members_remove(&members, nodes[0]));
    assert_false(relock_members_remove(&members, nodes[1]));
    relock_members_drop(nodes[0]);
    assert_true(relock_members_remove(&members, nodes[0]));
    relock_members_drop(nodes[1]);
    assert_true(relock_members_remove(&members, nodes[1]));
}

static void a_walk_over_all_nodes_passes_none_by(void **state)
{
    struct relock_node *node = NULL, *next;
    unsigned n = 0;

    (void)state;
    for (uint16_t port = 1; port <= 5; port++)
        relock_members_drop(at(port));
    assert_true(relock_members_remove(&members, atomic_load(&list)));
    assert_true(relock_members_remove(&members, atomic_load(&list)->next));
    for (; (next = relock_members_next(&members, node)); node = next, n++) {
        if (node)
            relock_members_drop(node);
        assert_false(relock_members_remove(&members, next));
    }
    assert_int_equal(n, 3);
}

static void nodes_that_were_removed_make_room_for_others(void **state)
{
    struct relock_node *node = NULL;

    (void)state;
    for (uint16_t port = 1; port <= RELOCK_MEMBERS_MAX; port++)
        relock_members_drop(node = at(port));
    assert_null(at(RELOCK_MEMBERS_MAX + 1));
    assert_null(at(RELOCK_MEMBERS_MAX + 2));
    assert_int_equal(log_count(lines, "the cluster names more than"), 1);
    assert_true(relock_members_remove(&members, node));
    assert_non_null(at(RELOCK_MEMBERS_MAX + 1));
    assert_null(at(RELOCK_MEMBERS_MAX + 2));
    assert_int_equal(log_count(lines, "the cluster names more than"), 2);
}

/* ---- several ------------------------------------------------------------------------------- */

/* A caller: finds the node of its key and reads what a call reads. */
static int use(void *arg)
{
    atomic_ulong *n_used = arg;

    while (!atomic_load(&stops)) {
        struct relock_node *node = relock_members_take(&members, 7), *other;

        if (strncmp(node->server->label, "127.0.0.1:", 10) != 0)
            return -1;
        other = relock_members_next(&members, node);
        relock_members_drop(node);
        if (other)
            relock_members_drop(other);
        atomic_fetch_add(n_used, 1);
    }
    return 0;
}

static bool is_used(void *arg)
{
    return atomic_load((atomic_ulong *)arg) > 0;
}

/* The I/O thread removes nodes, this one; the fourth may still be used by a call. */
static void nodes_come_and_go_while_threads_use_them(void **state)
{
    struct actor *actors[THREADS];
    atomic_ulong n_used[THREADS] = {0};
    unsigned n_most = 0;

    (void)state;
    log_clear(lines);
    assign(ALL, 1);
    for (int i = 0; i < THREADS; i++) {
        actors[i] = actor_start();
        actor_begin(actors[i], use, &n_used[i]);
    }
    for (int i = 0; i < THREADS; i++)
        assert_true(wait_until(is_used, &n_used[i], SOON_MS));
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct relock_node *node, *next;

        assign(ALL, (uint16_t)(round % 60000 + 2));
        for (node = atomic_load(&list); node; node = next) {
            next = node->next;
            (void)relock_members_remove(&members, node);
        }
        if (count() > n_most)
            n_most = count();
    }
    atomic_store(&stops, true);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(actor_result(actors[i]), 0);
        actor_end(actors[i]);
    }
    assert_true(n_most <= 1 + 2 * THREADS);
}

#define MEMBERS_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEMBERS_TEST(a_node_with_slots_is_not_removed),
        MEMBERS_TEST(a_node_that_a_call_uses_is_not_removed),
        MEMBERS_TEST(a_node_that_a_redirection_has_named_is_not_removed),
        MEMBERS_TEST(a_node_is_kept_as_long_as_the_id_of_a_connection_to_it),
        MEMBERS_TEST(the_nodes_of_a_survey_are_not_removed),
        MEMBERS_TEST(a_walk_over_all_nodes_passes_none_by),
        MEMBERS_TEST(nodes_that_were_removed_make_room_for_others),
        MEMBERS_TEST(nodes_come_and_go_while_threads_use_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
