/* Sharded channels, whose subscriptions follow the slot to another node, and plain ones, which
 * leave a node that is gone. */
#include "redis/io/io.h"
#include "redis/io/private.h"

#include "base/clock.h"
#include "base/thread.h"
#include "redis/server/loop.h"
#include "unit/common/two_nodes.h"

#include <string.h>

#define NAME "c:{orders}"
#define SUBSCRIBED "*3\r\n$10\r\nssubscribe\r\n$10\r\n" NAME "\r\n:1\r\n"
#define ENDED "*3\r\n$12\r\nsunsubscribe\r\n$10\r\n" NAME "\r\n:0\r\n"
#define MESSAGE "*3\r\n$8\r\nsmessage\r\n$10\r\n" NAME "\r\n$1\r\n0\r\n"
#define MOVED "-MOVED 105 b:1\r\n"
#define MOVED_BACK "-MOVED 105 a:1\r\n"
#define MOVED_OTHER "-MOVED 7 b:1\r\n"

/* The events that the subscriber has heard, one letter for each. */
static char heard[32];
static size_t n_heard;
static size_t n_expected;
static struct relock_gate all_heard;
static struct relock_subscriber *subscriber;
static bool are_reached; /* by calls: no node is doubted for long */

static void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    static const char letters[] = {
        [RELOCK_CHANNEL_SUBSCRIBED] = 's',
        [RELOCK_CHANNEL_MESSAGE] = 'm',
        [RELOCK_CHANNEL_REFUSED] = 'r',
        [RELOCK_CHANNEL_DOWN] = 'd',
    };

    (void)arg;
    (void)text;
    (void)len;
    if (n_heard + 1 < sizeof(heard))
        heard[n_heard++] = letters[event];
    if (n_heard == n_expected)
        relock_gate_open(&all_heard);
}

static void on_up(void *arg)
{
    (void)arg;
}

static uint64_t turn(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 2 && are_reached; i++)
        relock_topology_trust(&cluster.node[i]);
    relock_node_io_follow(&cluster.topology);
    return RELOCK_NEVER;
}

static int begin(void **state)
{
    struct relock_topology_io io = {
        .answer_ms = slow_ms(SOON_MS), .ping_ms = slow_ms(SOON_MS), .up = on_up};
    int r = two_nodes_begin(state);

    memset(heard, 0, sizeof(heard));
    n_heard = 0;
    are_reached = false;
    relock_gate_init(&all_heard);
    assert_int_equal(relock_loop_new(turn, NULL, &cluster.loop), RELOCK_OK);
    io.loop = cluster.loop;
    cluster.topology.io = io;
    atomic_store(&cluster.topology.is_sharded, true);
    return r;
}

/* Only pub/sub: the scripts expect no pipeline. */
static int open_pubsub(struct relock_topology *topology, struct relock_node *node)
{
    struct relock_pubsub *new;

    if (node->pubsub)
        return RELOCK_OK;
    assert_int_equal(relock_pubsub_new(topology->io.loop, node->server, topology->io.ping_ms, &new),
                     RELOCK_OK);
    relock_pubsub_join(new, topology, node);
    relock_pubsub_share(new, topology->reading);
    atomic_store(&node->pubsub, new);
    return RELOCK_OK;
}

typedef struct relock_subscriber *subscribe_fn(struct relock_pubsub *pubsub, const char *name,
                                               size_t len, relock_channel_fn *fn, void *arg);

/* Subscribes at the first node, and waits until these events were heard. */
static void hears_by(subscribe_fn *subscribe, const char *events)
{
    n_expected = strlen(events);
    cluster.topology.io.hear = open_pubsub;
    assert_int_equal(open_pubsub(&cluster.topology, &cluster.node[0]), RELOCK_OK);
    subscriber = subscribe(cluster.node[0].pubsub, NAME, strlen(NAME), on_channel, NULL);
    assert_non_null(subscriber);
    assert_int_equal(relock_loop_start(cluster.loop), RELOCK_OK);
    assert_true(relock_gate_wait(&all_heard, soon()));
    for (unsigned i = 0; i < 2; i++)
        assert_true(script_played(cluster.script[i]));
    relock_loop_stop(cluster.loop);
    assert_string_equal(heard, events);
}

static void hears(const char *events)
{
    hears_by(relock_pubsub_subscribe, events);
}

static void subscribes(unsigned i, const char *answer)
{
    script_expect(cluster.script[i], "SSUBSCRIBE " NAME);
    script_answer(cluster.script[i], answer);
}

static void messages_of_a_sharded_channel_are_heard(void **state)
{
    (void)state;
    connects(0);
    subscribes(0, SUBSCRIBED);
    script_answer(cluster.script[0], MESSAGE);
    hears("sm");
}

static void a_channel_is_subscribed_where_its_slot_is(void **state)
{
    (void)state;
    connects(0);
    subscribes(0, MOVED);
    connects(1);
    subscribes(1, SUBSCRIBED);
    script_answer(cluster.script[1], MESSAGE);
    hears("dsm");
}

static void a_channel_follows_its_slot_when_the_server_ends_the_subscription(void **state)
{
    (void)state;
    connects(0);
    subscribes(0, SUBSCRIBED);
    script_answer(cluster.script[0], ENDED);
    subscribes(0, MOVED);
    connects(1);
    subscribes(1, SUBSCRIBED);
    script_answer(cluster.script[1], MESSAGE);
    hears("sddsm");
}

static void a_channel_comes_back_with_its_slot(void **state)
{
    (void)state;
    connects(0);
    subscribes(0, MOVED);
    connects(1);
    subscribes(1, MOVED_BACK);
    subscribes(0, SUBSCRIBED);
    hears("dds");
}

/* The replies to two commands were mixed up: only a new connection tells what is subscribed. */
static void a_redirection_of_another_slot_ends_the_connection(void **state)
{
    (void)state;
    connects(0);
    subscribes(0, MOVED_OTHER);
    connects(0);
    subscribes(0, SUBSCRIBED);
    hears("ds");
}

static void a_channel_is_subscribed_anew_if_its_node_names_itself(void **state)
{
    (void)state;
    connects(0);
    subscribes(0, MOVED_BACK);
    script_expect_end(cluster.script[0]);
    connects(0);
    subscribes(0, SUBSCRIBED);
    script_answer(cluster.script[0], MESSAGE);
    hears("dsm");
}

static void nodes_that_refer_to_each_other_are_not_asked_for_ever(void **state)
{
    (void)state;
    connects(0);
    subscribes(0, MOVED);
    connects(1);
    subscribes(1, MOVED_BACK);
    subscribes(0, MOVED);
    subscribes(1, MOVED_BACK);
    subscribes(0, MOVED);
    subscribes(1, MOVED_BACK); /* then it waits for the next map of the slots */
    hears("ddddd");
    assert_int_equal(atomic_load(&cluster.n_redirects),
                     6); /* the map learns of the last one, too */
    assert_true(atomic_load(&cluster.n_distrusts) > 0);
}

/* ---- channels that may be at any node ------------------------------------------------------- */

#define PLAIN_SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$10\r\n" NAME "\r\n:1\r\n"
#define PLAIN_MESSAGE "*3\r\n$7\r\nmessage\r\n$10\r\n" NAME "\r\n$1\r\n0\r\n"

static void subscribes_plainly(unsigned i)
{
    script_expect(cluster.script[i], "SUBSCRIBE " NAME);
    script_answer(cluster.script[i], PLAIN_SUBSCRIBED);
}

static void a_plain_channel_is_at_the_node_that_was_chosen_though_another_has_its_slot(void **state)
{
    (void)state;
    atomic_store(&cluster.owner, &cluster.node[1]);
    atomic_store(&cluster.topology.has_changed, true);
    connects(0);
    subscribes_plainly(0);
    script_answer(cluster.script[0], PLAIN_MESSAGE);
    hears_by(relock_pubsub_subscribe_anywhere, "sm");
}

static void a_plain_channel_goes_to_another_node_when_its_connection_ends(void **state)
{
    (void)state;
    connects(0);
    subscribes_plainly(0);
    script_close(cluster.script[0]);
    connects(1);
    subscribes_plainly(1);
    script_answer(cluster.script[1], PLAIN_MESSAGE);
    hears_by(relock_pubsub_subscribe_anywhere, "sddsm");
}

static void a_plain_channel_leaves_a_node_that_holds_no_slots(void **state)
{
    (void)state;
    atomic_store(&cluster.is_empty[0], true);
    atomic_store(&cluster.topology.has_changed, true);
    connects(1);
    subscribes_plainly(1);
    hears_by(relock_pubsub_subscribe_anywhere, "ds");
}

static void a_plain_channel_without_another_node_waits_for_its_own(void **state)
{
    (void)state;
    atomic_store(&cluster.is_empty[1], true);
    connects(0);
    subscribes_plainly(0);
    script_close(cluster.script[0]);
    connects(0);
    subscribes_plainly(0);
    hears_by(relock_pubsub_subscribe_anywhere, "sds");
}

#define MIN_PAUSE_MS 10 /* of async_conn.c */

/* Each attempt fails, and calls reach both nodes meanwhile. */
static void a_plain_channel_that_no_node_takes_goes_from_node_to_node_with_pauses(void **state)
{
    uint64_t began_ms = relock_clock_now_ms();

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        connects(i % 2);
        script_expect(cluster.script[i % 2], "SUBSCRIBE " NAME);
        script_close(cluster.script[i % 2]);
    }
    are_reached = true;
    hears_by(relock_pubsub_subscribe_anywhere, "dddddddddddd");
    assert_true(relock_clock_now_ms() - began_ms >= 2 * MIN_PAUSE_MS);
}

#define SHARDED_TEST(function) cmocka_unit_test_setup_teardown(function, begin, two_nodes_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARDED_TEST(messages_of_a_sharded_channel_are_heard),
        SHARDED_TEST(a_channel_is_subscribed_where_its_slot_is),
        SHARDED_TEST(a_channel_follows_its_slot_when_the_server_ends_the_subscription),
        SHARDED_TEST(a_channel_comes_back_with_its_slot),
        SHARDED_TEST(a_redirection_of_another_slot_ends_the_connection),
        SHARDED_TEST(a_channel_is_subscribed_anew_if_its_node_names_itself),
        SHARDED_TEST(nodes_that_refer_to_each_other_are_not_asked_for_ever),
        SHARDED_TEST(a_plain_channel_is_at_the_node_that_was_chosen_though_another_has_its_slot),
        SHARDED_TEST(a_plain_channel_goes_to_another_node_when_its_connection_ends),
        SHARDED_TEST(a_plain_channel_leaves_a_node_that_holds_no_slots),
        SHARDED_TEST(a_plain_channel_without_another_node_waits_for_its_own),
        SHARDED_TEST(a_plain_channel_that_no_node_takes_goes_from_node_to_node_with_pauses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
