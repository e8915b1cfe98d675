/* Which node reports the next change of a held lock, and when a check is due. */
#include "one_hold.h"

#include "lock/hold/arming.h"
#include "lock/hold/watchdog.h"
#include "redis/deployment/topology.h"

#define MOST_MS 1000 /* between two checks that arm nothing */

static struct relock_node nodes[2];
static struct relock_node *owner; /* of all keys */

static struct relock_node *find(struct relock_topology *topology, struct relock_text key)
{
    (void)topology;
    (void)key;
    return owner;
}

static const struct relock_topology_ops ops = {.find = find};
static struct relock_topology topology = {.ops = &ops};

/* The hold is armed at the first node. */
static int begin(void **state)
{
    int r = one_hold_begin(state);

    client.topology = &topology;
    owner = &nodes[0];
    relock_arming_set(hold, RELOCK_NEVER);
    relock_arming_sent(hold, &nodes[0]);
    return r;
}

static int end(void **state)
{
    finish();
    client.topology = NULL;
    return one_hold_end(state);
}

static void answers(const struct relock_node *tracker, uint64_t now_ms)
{
    relock_arming_sent(hold, &nodes[0]);
    hold->arming.tracker = tracker;
    relock_arming_answered(hold, now_ms);
}

static void is_armed_by(const struct relock_node *node)
{
    assert_ptr_equal(hold->arming.node, node);
    assert_ptr_equal(resource->armed, node ? hold : NULL);
    assert_int_equal(client.guarded.n_armed, node ? 1 : 0);
}

static void the_node_that_tracks_a_check_reports(void **state)
{
    (void)state;

    answers(&nodes[0], sent_ms);
    is_armed_by(&nodes[0]);
    answers(&nodes[1], sent_ms);
    is_armed_by(&nodes[1]);
    assert_int_equal(hold->arming.due_ms, RELOCK_NEVER);
}

/* It was sent behind ASKING, say. The pauses grow, and begin anew. */
static void a_check_that_arms_nothing_is_repeated(void **state)
{
    uint64_t longest_ms = 0;

    (void)state;

    for (int i = 0; i < 100; i++) {
        answers(NULL, sent_ms);
        is_armed_by(NULL);
        assert_in_range(hold->arming.due_ms, sent_ms + 100, sent_ms + (i > 0 ? MOST_MS : 300));
        if (hold->arming.due_ms - sent_ms > longest_ms)
            longest_ms = hold->arming.due_ms - sent_ms;
    }
    assert_in_range(longest_ms, 301, MOST_MS);
    answers(&nodes[0], sent_ms);
    answers(NULL, sent_ms);
    assert_in_range(hold->arming.due_ms, sent_ms + 100, sent_ms + 300);
}

static void a_report_before_the_answer_makes_the_check_due_now(void **state)
{
    (void)state;

    hold->arming.tracker = &nodes[0];
    relock_reports_hear(&client, NULL, 0);
    is_armed_by(NULL);
    relock_arming_answered(hold, sent_ms);
    is_armed_by(NULL);
    assert_int_not_equal(hold->arming.due_ms, RELOCK_NEVER);
}

static void a_hold_whose_slot_has_another_node_is_checked(void **state)
{
    (void)state;

    relock_reports_follow(&client);
    is_armed_by(&nodes[0]);
    owner = &nodes[1];
    relock_reports_follow(&client);
    is_armed_by(NULL);
    assert_int_not_equal(hold->arming.due_ms, RELOCK_NEVER);
}

static void a_hold_whose_node_reports_no_more_is_checked(void **state)
{
    (void)state;

    relock_reports_turn(&client, &nodes[1], false);
    is_armed_by(&nodes[0]);
    relock_reports_turn(&client, &nodes[0], false);
    is_armed_by(NULL);
    assert_int_not_equal(hold->arming.due_ms, RELOCK_NEVER);
}

/* A client with min_replicas renews each time over another connection, too. A pause would leave the
 * hold without reports. */
static void a_renewal_for_replicas_is_checked_at_once_each_time(void **state)
{
    (void)state;

    for (uint64_t at_ms = sent_ms; at_ms < sent_ms + 20000; at_ms += 1000) {
        hold->sent_ms = at_ms;
        hold->confirm.sent_ms = at_ms + 1;
        assert_int_equal(relock_arming_pace(hold, at_ms + 2), at_ms + 2);
    }
}

#define ARMING_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARMING_TEST(the_node_that_tracks_a_check_reports),
        ARMING_TEST(a_check_that_arms_nothing_is_repeated),
        ARMING_TEST(a_report_before_the_answer_makes_the_check_due_now),
        ARMING_TEST(a_hold_whose_slot_has_another_node_is_checked),
        ARMING_TEST(a_hold_whose_node_reports_no_more_is_checked),
        ARMING_TEST(a_renewal_for_replicas_is_checked_at_once_each_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
