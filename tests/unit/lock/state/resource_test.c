/* The queue of a name: which waiter may ask Redis, and when. */
#include "queue.h"

/* ---- the queue ----------------------------------------------------------------------------- */

static void the_first_to_join_may_ask(void **state)
{
    (void)state;

    relock_resource_enqueue(&resource, &waiters[0]);
    assert_true(is_woken(0));
    assert_true(may_ask(0));
}

static void only_the_head_may_ask(void **state)
{
    (void)state;

    for (int i = 0; i < N_WAITERS; i++)
        relock_resource_enqueue(&resource, &waiters[i]);
    assert_true(is_woken(0));
    no_waiter_is_woken();
    assert_true(may_ask(0));
    for (int i = 1; i < N_WAITERS; i++)
        assert_false(may_ask(i));
}

static void a_waiter_that_joins_behind_the_head_is_no_signal(void **state)
{
    (void)state;

    relock_resource_enqueue(&resource, &waiters[0]);
    ask(0);
    (void)is_woken(0);
    relock_resource_enqueue(&resource, &waiters[1]);
    no_waiter_is_woken();
    assert_false(may_ask(0));
}

static void the_head_asks_once_for_each_signal(void **state)
{
    (void)state;

    relock_resource_enqueue(&resource, &waiters[0]);
    ask(0);
    assert_false(may_ask(0));
    relock_resource_signal(&resource, true);
    relock_resource_signal(&resource, true);
    ask(0);
    assert_false(may_ask(0));
}

static void a_signal_wakes_the_head_alone(void **state)
{
    (void)state;

    join_all();
    ask(0);
    relock_resource_signal(&resource, true);
    assert_true(is_woken(0));
    no_waiter_is_woken();
}

static void a_signal_is_a_message_if_one_came_since_it_was_used(void **state)
{
    (void)state;

    relock_resource_signal(&resource, false);
    assert_int_equal(resource.retry, RELOCK_RETRY_PENDING);
    relock_resource_signal(&resource, true);
    assert_int_equal(resource.retry, RELOCK_RETRY_FOR_MESSAGE);
    relock_resource_signal(&resource, false);
    assert_int_equal(resource.retry, RELOCK_RETRY_FOR_MESSAGE);

    resource.retry = RELOCK_RETRY_NONE; /* used */
    relock_resource_signal(&resource, false);
    assert_int_equal(resource.retry, RELOCK_RETRY_PENDING);
}

static void a_signal_without_a_waiter_is_kept_for_the_next_one(void **state)
{
    (void)state;

    take();
    relock_resource_signal(&resource, true);
    relock_resource_enqueue(&resource, &waiters[0]);
    relock_resource_released(&resource, true, 0);
    assert_true(may_ask(0));
}

static void the_next_waiter_asks_when_the_head_leaves(void **state)
{
    (void)state;

    join_all();
    ask(0);
    relock_resource_dequeue(&resource, &waiters[0]);
    assert_true(is_woken(1));
    no_waiter_is_woken();
    assert_false(may_ask(1)); /* the last request was refused, and nothing has changed since */
    relock_resource_signal(&resource, true);
    assert_true(is_woken(1));
    assert_true(may_ask(1));
}

static void a_signal_outlives_the_head_that_leaves_without_using_it(void **state)
{
    (void)state;

    join_all();
    relock_resource_dequeue(&resource, &waiters[0]);
    assert_true(is_woken(1));
    assert_true(may_ask(1));
    assert_false(may_ask(0));
}

static void a_waiter_that_leaves_behind_the_head_wakes_nobody(void **state)
{
    (void)state;

    join_all();
    relock_resource_dequeue(&resource, &waiters[2]);
    relock_resource_dequeue(&resource, &waiters[3]);
    no_waiter_is_woken();
    assert_ptr_equal(resource.queue, &waiters[0]);
    assert_ptr_equal(resource.queue->next, &waiters[1]);
    assert_null(resource.queue->next->next);
}

static void the_queue_is_first_come_first_served(void **state)
{
    (void)state;

    join_all();
    for (int i = 0; i < N_WAITERS; i++) {
        assert_ptr_equal(resource.queue, &waiters[i]);
        assert_true(may_ask(i));
        relock_resource_dequeue(&resource, &waiters[i]);
    }
    assert_null(resource.queue);
}

/* ---- a local owner ------------------------------------------------------------------------- */

static void while_a_local_owner_holds_nobody_may_ask(void **state)
{
    (void)state;

    take();
    relock_resource_enqueue(&resource, &waiters[0]);
    no_waiter_is_woken();
    assert_false(may_ask(0));
    assert_int_equal(resource.retry, RELOCK_RETRY_NONE);
}

static void only_an_earlier_end_of_the_lease_wakes_the_head(void **state)
{
    (void)state;

    relock_resource_enqueue(&resource, &waiters[0]);
    ask(0);
    (void)is_woken(0);
    resource.contention->lease_end_ms = 5000;
    relock_resource_hear_lease(&resource, 6000);
    no_waiter_is_woken();
    relock_resource_hear_lease(&resource, 4000);
    assert_true(is_woken(0));
    assert_false(may_ask(0));
    assert_int_equal(relock_resource_recheck_at(&resource, 10000), 4000);
}

/* The answer to the attempt may be older, and will replace what was heard. */
static void a_lease_that_is_heard_during_an_attempt_is_a_signal(void **state)
{
    (void)state;

    relock_resource_enqueue(&resource, &waiters[0]);
    ask(0);
    waiters[0].is_asking = true;
    relock_resource_hear_lease(&resource, 4000);
    waiters[0].is_asking = false;
    assert_true(may_ask(0));
}

/* Redis may still have the hold: asking could acquire a second one, or the same twice. */
static void while_a_local_hold_is_suspect_nobody_may_ask(void **state)
{
    (void)state;

    take();
    join_all();
    relock_resource_signal(&resource, false);
    hold.state = RELOCK_HOLD_SUSPECT;
    assert_false(may_ask(0));
    hold.state = RELOCK_HOLD_RELEASING;
    assert_false(may_ask(0));
}

static void a_signal_while_owned_is_kept_and_wakes_nobody(void **state)
{
    (void)state;

    take();
    join_all();
    relock_resource_signal(&resource, true);
    no_waiter_is_woken();
    assert_false(may_ask(0));

    relock_resource_released(&resource, true, 0);
    assert_true(is_woken(0));
    assert_true(may_ask(0));
}

static void an_unannounced_release_is_a_signal(void **state)
{
    (void)state;

    take();
    join_all();
    relock_resource_released(&resource, false, 0);
    assert_null(resource.holder);
    assert_true(is_woken(0));
    assert_true(may_ask(0));
    no_waiter_is_woken();
}

static void after_an_announced_release_the_head_waits_for_the_message(void **state)
{
    (void)state;

    take();
    join_all();
    relock_resource_released(&resource, true, 0);
    assert_true(is_woken(0)); /* from now on it waits for a recheck */
    assert_false(may_ask(0));

    relock_resource_signal(&resource, true);
    assert_true(is_woken(0));
    assert_true(may_ask(0));
}

static void a_waiter_that_moves_up_while_owned_sleeps_on(void **state)
{
    (void)state;

    take();
    join_all();
    relock_resource_dequeue(&resource, &waiters[0]);
    no_waiter_is_woken();
    assert_false(may_ask(1));
    relock_resource_released(&resource, false, 0);
    assert_true(is_woken(1));
    assert_true(may_ask(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUEUE_TEST(the_first_to_join_may_ask),
        QUEUE_TEST(only_the_head_may_ask),
        QUEUE_TEST(a_waiter_that_joins_behind_the_head_is_no_signal),
        QUEUE_TEST(the_head_asks_once_for_each_signal),
        QUEUE_TEST(a_signal_wakes_the_head_alone),
        QUEUE_TEST(a_signal_is_a_message_if_one_came_since_it_was_used),
        QUEUE_TEST(a_signal_without_a_waiter_is_kept_for_the_next_one),
        QUEUE_TEST(the_next_waiter_asks_when_the_head_leaves),
        QUEUE_TEST(a_signal_outlives_the_head_that_leaves_without_using_it),
        QUEUE_TEST(a_waiter_that_leaves_behind_the_head_wakes_nobody),
        QUEUE_TEST(the_queue_is_first_come_first_served),
        QUEUE_TEST(while_a_local_owner_holds_nobody_may_ask),
        QUEUE_TEST(only_an_earlier_end_of_the_lease_wakes_the_head),
        QUEUE_TEST(a_lease_that_is_heard_during_an_attempt_is_a_signal),
        QUEUE_TEST(while_a_local_hold_is_suspect_nobody_may_ask),
        QUEUE_TEST(a_signal_while_owned_is_kept_and_wakes_nobody),
        QUEUE_TEST(an_unannounced_release_is_a_signal),
        QUEUE_TEST(after_an_announced_release_the_head_waits_for_the_message),
        QUEUE_TEST(a_waiter_that_moves_up_while_owned_sleeps_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
