/* Calls without a thread, behind a release that does not wait for its answer. */
#include "lock/wake/wake.h"

#include "unit/common/offline.h"

#include "base/clock.h"
#include "lock/call/call.h"
#include "lock/state/lock.h"
#include "lock/state/step.h"
#include "redis/deployment/topology.h"

static struct relock_node *find_none(struct relock_topology *topology, struct relock_text key)
{
    (void)topology;
    (void)key;
    return NULL;
}

static const struct relock_topology_ops no_nodes = {.find = find_none};
static struct relock_topology topology = {.ops = &no_nodes};

static struct relock_waiter waiter;
static struct relock_step step;
static struct relock_hold *hold;

static int begin(void **state)
{
    (void)state;
    offline_begin();
    client.options.flags |= RELOCK_DEFER_RELEASES;
    client.topology = &topology;
    waiter = (struct relock_waiter){.owner = 1, .renewed = true};
    hold = offline_acquire(&waiter, relock_clock_now_ms());
    relock_holds_release(&client, hold);
    step = (struct relock_step){.client = &client};
    relock_step_follow(&step, hold);
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_step_unfollow(&step);
    relock_client_take_back(&client, &step.task);
    relock_holds_unref(&client, hold);
    return offline_end();
}

static bool is_posted(void)
{
    return step.task.prev != NULL;
}

static void a_release_that_is_not_sent_lets_calls_go_on(void **state)
{
    struct relock_lock lock = {.client = &client, .resource = resource};
    struct relock_release_view view = {.owner = 1};

    (void)state;

    relock_mutex_lock(&client.mutex);
    assert_false(relock_defer(&lock, hold, &view, relock_clock_in(LEASE_MS)));
    assert_true(is_posted());
    relock_holds_end(&client, hold);
    relock_mutex_unlock(&client.mutex);
}

static void a_release_that_was_sent_blocks_calls_until_it_has_ended(void **state)
{
    (void)state;

    hold->is_deferred = true;
    relock_step_pass(hold);
    assert_false(is_posted());
    relock_holds_settle(&client, hold, relock_clock_now_ms());
    relock_step_pass(hold);
    assert_false(is_posted());
    relock_holds_end(&client, hold);
    assert_true(is_posted());
}

static void a_shutdown_has_calls_look(void **state)
{
    (void)state;

    hold->is_deferred = true;
    relock_drain_wake(&client);
    assert_true(is_posted());
    relock_holds_end(&client, hold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_release_that_is_not_sent_lets_calls_go_on, begin, end),
        cmocka_unit_test_setup_teardown(a_release_that_was_sent_blocks_calls_until_it_has_ended,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_shutdown_has_calls_look, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
