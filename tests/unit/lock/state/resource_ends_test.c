/* How the waits in the queue of a name end. */
#include "queue.h"

#include "base/clock.h"

#define NAMED_OWNER 1000000007 /* an owner that is not a thread */

/* ---- with the lock ------------------------------------------------------------------------- */

static void a_waiter_that_acquires_leaves_the_queue(void **state)
{
    (void)state;

    resource.contention->lease_end_ms = 500;
    join_all();
    ask(0);
    relock_resource_acquired(&resource, &waiters[0], &hold);
    assert_ptr_equal(resource.holder, &hold);
    assert_ptr_equal(resource.queue, &waiters[1]);
    assert_false(may_ask(1));
    no_waiter_is_woken();
    assert_true(resource.contention->lease_end_ms == RELOCK_NEVER); /* of the former holder */
    for (int i = 0; i < N_WAITERS; i++)
        assert_int_equal(waiters[i].end, RELOCK_WAITER_WAITS);
}

static void a_hold_may_go_to_a_waiter_that_is_not_the_head(void **state)
{
    (void)state;

    join_all();
    relock_resource_acquired(&resource, &waiters[2], &hold);
    assert_ptr_equal(resource.queue, &waiters[0]);
    assert_ptr_equal(resource.queue->next, &waiters[1]);
    assert_ptr_equal(resource.queue->next->next, &waiters[3]);
    assert_false(may_ask(0));
}

static void an_owner_that_acquired_before_the_last_release_stays(void **state)
{
    struct relock_hold next = {.state = RELOCK_HOLD_HELD};

    (void)state;
    join_all();
    relock_resource_acquired(&resource, &waiters[0], &hold);
    hold.state = RELOCK_HOLD_RELEASING;
    relock_resource_acquired(&resource, &waiters[1], &next);
    relock_resource_released(&resource, true, 0);
    assert_ptr_equal(resource.holder, &next);
    next.state = RELOCK_HOLD_RELEASING;
    relock_resource_released(&resource, true, 0);
    assert_null(resource.holder);
}

/* ---- one owner, several waiters ------------------------------------------------------------ */

static void other_waiters_of_the_same_owner_start_anew(void **state)
{
    (void)state;

    for (int i = 0; i < 3; i += 2) {
        waiters[i].owner = NAMED_OWNER;
        waiters[i].explicit_owner = true;
    }
    join_all();
    relock_resource_acquired(&resource, &waiters[0], &hold);
    assert_int_equal(waiters[2].end, RELOCK_WAITER_STARTS_ANEW);
    assert_true(is_woken(2));
    assert_int_equal(waiters[1].end, RELOCK_WAITER_WAITS);
    assert_int_equal(waiters[3].end, RELOCK_WAITER_WAITS);
    assert_int_equal(waiters[0].end, RELOCK_WAITER_WAITS); /* this waiter has acquired the lock */
}

static void a_thread_and_an_explicit_call_for_it_are_the_same_owner(void **state)
{
    (void)state;

    for (int thread = 0; thread < 2; thread++) {
        int proxy = 1 - thread;

        queue_end(NULL);
        queue_begin(NULL);
        waiters[proxy].owner = waiters[thread].owner;
        waiters[proxy].explicit_owner = true;
        join_all();
        relock_resource_acquired(&resource, &waiters[0], &hold);
        assert_int_equal(waiters[1].end, RELOCK_WAITER_STARTS_ANEW);
        assert_true(is_woken(1));
        assert_int_equal(waiters[2].end, RELOCK_WAITER_WAITS);
    }
}

static void waiters_of_explicit_owners_are_counted_while_they_queue(void **state)
{
    (void)state;

    waiters[1].explicit_owner = waiters[2].explicit_owner = true;
    join_all();
    assert_int_equal(resource.n_explicit_owners, 2);
    relock_resource_dequeue(&resource, &waiters[0]);
    assert_int_equal(resource.n_explicit_owners, 2);
    relock_resource_dequeue(&resource, &waiters[2]);
    assert_int_equal(resource.n_explicit_owners, 1);
    relock_resource_acquired(&resource, &waiters[1], &hold);
    assert_int_equal(resource.n_explicit_owners, 0);
}

/* ---- time, and changes for all ------------------------------------------------------------- */

static void a_head_without_a_signal_retries_at_its_recheck_or_the_end_of_the_lease(void **state)
{
    (void)state;

    resource.contention->asked_ms = 1000;
    assert_int_equal(relock_resource_recheck_at(&resource, 5000), 6000);
    resource.contention->lease_end_ms = 6001;
    assert_int_equal(relock_resource_recheck_at(&resource, 5000), 6000);
    resource.contention->lease_end_ms = 5999;
    assert_int_equal(relock_resource_recheck_at(&resource, 5000), 5999);
    assert_int_equal(relock_resource_recheck_at(&resource, RELOCK_NEVER), 5999);
    resource.contention->lease_end_ms = RELOCK_NEVER;
    assert_true(relock_resource_recheck_at(&resource, RELOCK_NEVER) == RELOCK_NEVER);
}

/* A waiter that may not ask must sleep. */
static void a_head_that_lets_others_go_first_does_not_ask_before(void **state)
{
    (void)state;

    resource.contention->asked_ms = 1000;
    resource.contention->yields_until_ms = 1002;
    assert_int_equal(relock_resource_recheck_at(&resource, 1), 1002);
    assert_int_equal(relock_resource_recheck_at(&resource, 5), 1005);
    resource.contention->lease_end_ms = 1001;
    assert_int_equal(relock_resource_recheck_at(&resource, 5), 1002);
}

static void the_recheck_time_starts_when_the_last_local_owner_leaves(void **state)
{
    (void)state;

    take();
    resource.contention->asked_ms = 1000;
    resource.contention->lease_end_ms = 1500;
    relock_resource_released(&resource, true, 3000);
    assert_int_equal(relock_resource_recheck_at(&resource, 5000), 8000);
}

static void waits_end_that_saw_redis_unreachable_all_the_time(void **state)
{
    (void)state;

    join_all(); /* their waits began at 0, 100, 200, 300 */
    relock_resource_end_unreached(&resource, 100);
    for (int i = 0; i < N_WAITERS; i++) {
        assert_int_equal(waiters[i].end, i < 2 ? RELOCK_WAITER_UNREACHED : RELOCK_WAITER_WAITS);
        assert_int_equal(is_woken(i), i < 2);
    }
}

static void a_wait_that_has_ended_stays_as_it_ended(void **state)
{
    (void)state;

    join_all();
    waiters[0].end = RELOCK_WAITER_STARTS_ANEW;
    relock_resource_end_unreached(&resource, 1000);
    assert_int_equal(waiters[0].end, RELOCK_WAITER_STARTS_ANEW);
    assert_int_equal(waiters[1].end, RELOCK_WAITER_UNREACHED);
}

static void rousing_wakes_every_waiter_in_the_queue(void **state)
{
    (void)state;

    join_all();
    relock_resource_dequeue(&resource, &waiters[3]);
    take();
    relock_resource_wake_all(&resource);
    for (int i = 0; i < N_WAITERS; i++)
        assert_int_equal(is_woken(i), i < 3);
}

static void a_hold_is_found_by_its_owner(void **state)
{
    struct relock_hold five = {.owner = 5, .has_owner = true, .resource = &resource};
    struct relock_hold six = {.owner = 6, .has_owner = true, .resource = &resource};
    struct relock_hold seven = {.owner = 7, .has_owner = true, .resource = &resource};

    (void)state;

    assert_null(relock_resource_find(&resource, 5));
    LL_APPEND(resource.holds, &five);
    LL_APPEND(resource.holds, &six);
    LL_APPEND(resource.holds, &seven);
    assert_ptr_equal(relock_resource_find(&resource, 5), &five);
    assert_ptr_equal(relock_resource_find(&resource, 6), &six);
    assert_ptr_equal(relock_resource_find(&resource, 7), &seven);
    assert_null(relock_resource_find(&resource, 8));
    assert_null(relock_resource_find(&resource, 0));
    six.has_owner = false; /* as a cached hold */
    assert_null(relock_resource_find(&resource, 6));
    assert_true(relock_resource_is_owned(&resource));
    five.has_owner = seven.has_owner = false;
    assert_false(relock_resource_is_owned(&resource));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUEUE_TEST(a_waiter_that_acquires_leaves_the_queue),
        QUEUE_TEST(a_hold_may_go_to_a_waiter_that_is_not_the_head),
        QUEUE_TEST(an_owner_that_acquired_before_the_last_release_stays),
        QUEUE_TEST(other_waiters_of_the_same_owner_start_anew),
        QUEUE_TEST(a_thread_and_an_explicit_call_for_it_are_the_same_owner),
        QUEUE_TEST(waiters_of_explicit_owners_are_counted_while_they_queue),
        QUEUE_TEST(a_head_without_a_signal_retries_at_its_recheck_or_the_end_of_the_lease),
        QUEUE_TEST(a_head_that_lets_others_go_first_does_not_ask_before),
        QUEUE_TEST(the_recheck_time_starts_when_the_last_local_owner_leaves),
        QUEUE_TEST(waits_end_that_saw_redis_unreachable_all_the_time),
        QUEUE_TEST(a_wait_that_has_ended_stays_as_it_ended),
        QUEUE_TEST(rousing_wakes_every_waiter_in_the_queue),
        QUEUE_TEST(a_hold_is_found_by_its_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
