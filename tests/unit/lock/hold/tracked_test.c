/* Which node reports the next change of a held lock, and when a check is due. */
#include "one_hold.h"

#include "lock/hold/holds.h"
#include "lock/hold/private.h"
#include "redis/deployment/topology.h"

#define MOST_MS 1000 /* between two checks that are not tracked */

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

/* A client with min_replicas. */
static int begin_with_replicas(void **state)
{
    int r = one_hold_begin(state);

    finish();
    relock_holds_unref(&client, hold);
    relock_pool_deinit(&client.guarded.holds); /* which has memory for smaller ones */
    client.options.min_replicas = 1;
    hold = offline_acquire(&waiters[0], sent_ms);
    assert_true(hold->confirms);
    return r;
}

/* The hold is tracked at the first node. */
static int begin(void **state)
{
    int r = one_hold_begin(state);

    client.topology = &topology;
    owner = &nodes[0];
    relock_tracked_set(hold, RELOCK_NEVER);
    relock_tracked_sent(hold, &nodes[0]);
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
    relock_tracked_sent(hold, &nodes[0]);
    relock_tracked_answered(hold, tracker, now_ms);
}

static void is_tracked_by(const struct relock_node *node)
{
    assert_int_equal(hold->is_tracked, node != NULL);
    if (node)
        assert_ptr_equal(hold->tracked.node, node);
    assert_int_equal(client.guarded.n_tracked, node ? 1 : 0);
}

static void the_node_that_tracks_a_check_reports(void **state)
{
    (void)state;

    answers(&nodes[0], sent_ms);
    is_tracked_by(&nodes[0]);
    answers(&nodes[1], sent_ms);
    is_tracked_by(&nodes[1]);
    assert_int_equal(hold->tracked.due_ms, RELOCK_NEVER);
}

/* It was sent behind ASKING, say. The pauses grow, and begin anew. */
static void a_check_that_tracks_nothing_is_repeated(void **state)
{
    uint64_t longest_ms = 0;

    (void)state;

    for (int i = 0; i < 100; i++) {
        answers(NULL, sent_ms);
        is_tracked_by(NULL);
        assert_in_range(hold->tracked.due_ms, sent_ms + 100, sent_ms + (i > 0 ? MOST_MS : 300));
        if (hold->tracked.due_ms - sent_ms > longest_ms)
            longest_ms = hold->tracked.due_ms - sent_ms;
    }
    assert_in_range(longest_ms, 301, MOST_MS);
    answers(&nodes[0], sent_ms);
    answers(NULL, sent_ms);
    assert_in_range(hold->tracked.due_ms, sent_ms + 100, sent_ms + 300);
}

static void a_report_before_the_answer_makes_the_check_due_now(void **state)
{
    (void)state;

    relock_watchdog_hear(&client, NULL, 0);
    is_tracked_by(NULL);
    relock_tracked_answered(hold, &nodes[0], sent_ms);
    is_tracked_by(NULL);
    assert_int_not_equal(hold->tracked.due_ms, RELOCK_NEVER);
}

static void a_hold_whose_slot_has_another_node_is_checked(void **state)
{
    (void)state;

    relock_watchdog_follow(&client);
    is_tracked_by(&nodes[0]);
    owner = &nodes[1];
    relock_watchdog_follow(&client);
    is_tracked_by(NULL);
    assert_int_not_equal(hold->tracked.due_ms, RELOCK_NEVER);
}

static void a_hold_whose_node_reports_no_more_is_checked(void **state)
{
    (void)state;

    relock_watchdog_tracking(&client, &nodes[1], false);
    is_tracked_by(&nodes[0]);
    relock_watchdog_tracking(&client, &nodes[0], false);
    is_tracked_by(NULL);
    assert_int_not_equal(hold->tracked.due_ms, RELOCK_NEVER);
}

/* A client with min_replicas renews each time over another connection, too. A pause would leave the
 * hold without reports. */
static void a_renewal_for_replicas_is_checked_at_once_each_time(void **state)
{
    (void)state;

    for (uint64_t at_ms = sent_ms; at_ms < sent_ms + 20000; at_ms += 1000) {
        hold->sent_ms = at_ms;
        hold->confirm->sent_ms = at_ms + 1;
        assert_int_equal(relock_tracked_pace(hold, at_ms + 2), at_ms + 2);
    }
}

/* Its loss is in a list, and has the memory of what reports need. */
static void a_lost_hold_is_not_tracked_again(void **state)
{
    struct relock_task *loss = &hold->loss;

    (void)state;

    relock_holds_lose(&client, hold, RELOCK_LOST_GONE, sent_ms);
    is_tracked_by(NULL);
    relock_tracked_sent(hold, &nodes[0]); /* commands that were on their way */
    relock_tracked_answered(hold, &nodes[0], sent_ms);
    relock_tracked_set(hold, sent_ms);
    relock_tracked_retry(hold, sent_ms);
    assert_false(relock_tracked_take(hold, &nodes[0], sent_ms));
    relock_watchdog_tracking(&client, &nodes[0], true);
    is_tracked_by(NULL);
    assert_ptr_equal(client.guarded.tasks, loss);
    assert_ptr_equal(loss->prev, loss);
    assert_null(loss->next);
    assert_true(loss->run == relock_losses_take_up);
    relock_let_go(&client, hold, sent_ms);
    client.topology = NULL;
}

#define TRACKED_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRACKED_TEST(the_node_that_tracks_a_check_reports),
        TRACKED_TEST(a_check_that_tracks_nothing_is_repeated),
        TRACKED_TEST(a_report_before_the_answer_makes_the_check_due_now),
        TRACKED_TEST(a_hold_whose_slot_has_another_node_is_checked),
        TRACKED_TEST(a_hold_whose_node_reports_no_more_is_checked),
        cmocka_unit_test_setup_teardown(a_renewal_for_replicas_is_checked_at_once_each_time,
                                        begin_with_replicas, end),
        cmocka_unit_test_setup_teardown(a_lost_hold_is_not_tracked_again, begin, one_hold_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
