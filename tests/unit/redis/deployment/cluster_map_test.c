/* When and where a cluster asks for the map of the slots, and which node an address means. */
#include "fake_nodes.h"

#include "base/clock.h"
#include "redis/deployment/private.h"
#include "support/wait.h"

#include <stdio.h>
#include <string.h>

#define SHARE (RELOCK_SLOTS / PLACES_MAX)

/* The first node is cut off from the others, and does not know that a replica, the second node, has
 * taken the place of a master that is down. */
static int dead_port(void)
{
    int port = 0;

    sscanf(places_text(places_refuse()), "127.0.0.1 %d", &port);
    return port;
}

static void draw_maps(int dead)
{
    char *map = fakes[0].map;

    map += sprintf(map, "*3\r\n");
    map += add_range(map, 10, 19, fakes[1].server.port);
    map += add_range(map, 0, 9, fakes[0].server.port);
    (void)add_range(map, 20, RELOCK_SLOTS - 1, dead);
    map = fakes[1].map;
    map += sprintf(map, "*2\r\n");
    map += add_range(map, 0, 9, fakes[0].server.port);
    (void)add_range(map, 10, RELOCK_SLOTS - 1, fakes[1].server.port);
}

/* All slots, with KEY, are at the second node. */
static void draw_halves(void)
{
    char *map = fakes[0].map;

    map += sprintf(map, "*2\r\n");
    map += add_range(map, 0, 9, fakes[0].server.port);
    (void)add_range(map, 10, RELOCK_SLOTS - 1, fakes[1].server.port);
    strcpy(fakes[1].map, fakes[0].map);
}

/* Eight masters, which do not answer, and then the second node alone. */
static void draw_silent(void)
{
    char *map = fakes[0].map;

    map += sprintf(map, "*%d\r\n", PLACES_MAX);
    for (int i = 0; i < PLACES_MAX; i++) {
        int port = 0;

        sscanf(places_text(places_listen()), "127.0.0.1 %d", &port);
        map += add_range(map, i * SHARE, (i + 1) * SHARE - 1, port);
    }
}

static void draw_second(void)
{
    pthread_mutex_lock(&drawing);
    (void)add_range(fakes[0].map + sprintf(fakes[0].map, "*1\r\n"), 0, RELOCK_SLOTS - 1,
                    fakes[1].server.port);
    pthread_mutex_unlock(&drawing);
}

/* The first node has all slots and does not know its own host. */
static void draw_nameless(void)
{
    (void)add_range_at(fakes[0].map + sprintf(fakes[0].map, "*1\r\n"), 0, RELOCK_SLOTS - 1, "",
                       fakes[0].server.port);
}

/* ---- tests --------------------------------------------------------------------------------- */

/* As callers do: each finds the node of the key, and cannot reach it if it is the dead one. */
static bool is_at_the_new_master(void *arg)
{
    struct relock_node *node = relock_topology_find(topology, KEY);

    (void)arg;
    if (node->server->url.port == fakes[1].server.port)
        return true;
    relock_topology_distrust(topology, node);
    return false;
}

static void a_node_with_an_old_map_is_not_asked_for_ever(void **state)
{
    (void)state;

    draw_maps(dead_port());
    connect_as("127.0.0.1", slow_ms(SOON_MS));
    assert_true(relock_slot_of(KEY) >= 20);
    assert_false(is_at_the_new_master(NULL));
    assert_true(wait_until(is_at_the_new_master, NULL, SOON_MS));
}

static void a_node_that_does_not_know_its_host_is_the_one_that_others_name(void **state)
{
    struct relock_node *node;
    bool asks;

    (void)state;
    draw_nameless();
    connect_as("localhost", slow_ms(SOON_MS));
    node = relock_topology_find(topology, KEY);
    assert_string_equal(node->server->url.host, "localhost");
    assert_ptr_equal(redirect(node, "MOVED", "127.0.0.1", fakes[0].server.port, &asks), node);
    assert_ptr_equal(redirect(node, "MOVED", "", fakes[0].server.port, &asks), node);
    assert_null(node->next);
}

static void a_node_that_others_have_named_is_found_without_its_host(void **state)
{
    struct relock_node *named, *node;
    bool asks;

    (void)state;
    draw_nameless();
    connect_as("localhost", slow_ms(SOON_MS));
    node = relock_topology_find(topology, KEY);
    named = redirect(node, "MOVED", "127.0.0.1", fakes[1].server.port, &asks);
    assert_ptr_not_equal(named, node);
    assert_ptr_equal(redirect(node, "MOVED", "", fakes[1].server.port, &asks), named);
}

static void one_question_serves_many_redirections(void **state)
{
    uint64_t begin_ms = relock_clock_now_ms(), now_ms;
    unsigned n_before, n_asked;

    (void)state;
    draw_halves();
    connect_as("127.0.0.1", slow_ms(SOON_MS));
    n_before = atomic_load(&fakes[0].n_questions) + atomic_load(&fakes[1].n_questions);
    do {
        struct relock_node *node = relock_topology_find(topology, KEY), *other;
        int port = node->server->url.port == fakes[0].server.port ? fakes[1].server.port
                                                                  : fakes[0].server.port;
        bool asks;

        other = redirect(node, "MOVED", "127.0.0.1", port, &asks);
        assert_int_equal(other->server->url.port, port);
        now_ms = relock_clock_now_ms();
    } while (now_ms - begin_ms < 1500);
    n_asked = atomic_load(&fakes[0].n_questions) + atomic_load(&fakes[1].n_questions) - n_before;
    assert_true(n_asked <= (now_ms - begin_ms) / 1000 + 1);
}

static bool has_asked_enough(void *arg)
{
    unsigned *n = arg;
    struct relock_node *node = relock_topology_find(topology, KEY);

    want_map(node);
    return atomic_load(&fakes[0].n_questions) >= *n;
}

static void a_node_that_does_not_answer_is_asked_last(void **state)
{
    unsigned enough = 5;

    (void)state;
    draw_halves();
    atomic_store(&fakes[1].manner, HANGS);
    connect_as("127.0.0.1", slow_ms(1000));
    assert_true(wait_until(has_asked_enough, &enough, SOON_MS));
    assert_int_equal(atomic_load(&fakes[1].n_visits), 1);
}

static bool has_asked_again(void *arg)
{
    const unsigned *n_before = arg;

    relock_topology_recheck(topology);
    return atomic_load(&fakes[0].n_questions) + atomic_load(&fakes[1].n_questions) > *n_before;
}

static void a_command_without_an_answer_is_a_reason_to_ask(void **state)
{
    unsigned n_before;

    (void)state;
    draw_halves();
    connect_as("127.0.0.1", slow_ms(SOON_MS));
    n_before = atomic_load(&fakes[0].n_questions) + atomic_load(&fakes[1].n_questions);
    assert_true(wait_until(has_asked_again, &n_before, SOON_MS));
}

static char not_read[] = "the slot map could not be read from any node";

/* All were replaced at once, and the name in the url leads to the new ones. If the node there is
 * late, the next question is for three other masters. */
static void nodes_of_the_url_are_asked_although_many_masters_do_not_answer(void **state)
{
    int n_asked = 0;

    (void)state;
    draw_silent();
    connect_as("127.0.0.1", outlast_ms(1000));
    draw_second();
    assert_true(wait_until(is_at_the_new_master, NULL, SOON_MS));
    for (int i = 0; i < PLACES_MAX; i++)
        n_asked += places_had_visitor(i);
    (void)late_unless(log_count(lines, not_read) == 0);
    assert_int_equal(n_asked, 3);
}

static char read_again[] = "the slot map was read again";

static bool is_logged(void *arg)
{
    want_map(relock_topology_find(topology, KEY));
    return log_count(lines, arg) > 0;
}

static void the_log_says_that_no_node_answers_and_that_one_does_again(void **state)
{
    (void)state;
    draw_halves();
    connect_as("127.0.0.1", slow_ms(SOON_MS));
    atomic_store(&fakes[0].manner, HANGS_UP);
    atomic_store(&fakes[1].manner, HANGS_UP);
    assert_true(wait_until(is_logged, not_read, SOON_MS));
    atomic_store(&fakes[0].manner, ANSWERS);
    assert_true(wait_until(is_logged, read_again, SOON_MS));
    assert_int_equal(log_count(lines, not_read), 1);
}

static void the_log_says_which_channels_are_used_and_why(void **state)
{
    (void)state;
    draw_halves();
    connect_as("127.0.0.1", slow_ms(SOON_MS));
    assert_int_equal(log_count(lines, "waiters use plain channels"), 1);
    assert_int_equal(log_count(lines, "refused PUBSUB SHARDNUMSUB: ERR unknown command"), 1);
}

static void a_cluster_that_names_ever_new_nodes_does_not_use_up_the_memory(void **state)
{
    struct relock_node *node;
    unsigned n = 0;
    bool asks;

    (void)state;
    draw_halves();
    connect_as("127.0.0.1", slow_ms(SOON_MS));
    node = relock_topology_find(topology, KEY);
    for (int port = 1; port <= RELOCK_MEMBERS_MAX + 2; port++)
        n += redirect(node, "ASK", "10.0.0.1", port, &asks) == NULL;
    assert_int_equal(n, 4); /* two were there */
    assert_false(asks);
    assert_int_equal(log_count(lines, "the cluster names more than"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NODES_TEST(a_node_with_an_old_map_is_not_asked_for_ever),
        NODES_TEST(a_node_that_does_not_know_its_host_is_the_one_that_others_name),
        NODES_TEST(a_node_that_others_have_named_is_found_without_its_host),
        NODES_TEST(one_question_serves_many_redirections),
        NODES_TEST(a_node_that_does_not_answer_is_asked_last),
        NODES_TEST(a_command_without_an_answer_is_a_reason_to_ask),
        NODES_TEST(nodes_of_the_url_are_asked_although_many_masters_do_not_answer),
        NODES_TEST(the_log_says_that_no_node_answers_and_that_one_does_again),
        NODES_TEST(the_log_says_which_channels_are_used_and_why),
        NODES_TEST(a_cluster_that_names_ever_new_nodes_does_not_use_up_the_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
