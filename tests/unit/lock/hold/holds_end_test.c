/* How a hold is lost, released and settled. */
#include "one_hold.h"

#include "base/clock.h"
#include "lock/hold/holds.h"

static void a_lost_hold_is_a_signal_and_is_reported(void **state)
{
    (void)state;

    (void)is_woken(1);
    relock_holds_lose(&client, hold, RELOCK_LOST_GONE, sent_ms);
    assert_int_equal(hold->state, RELOCK_HOLD_LOST);
    assert_int_equal(hold->lost_reason, RELOCK_LOST_GONE);
    assert_false(relock_heap_has(&client.guarded.due, &hold->timer));
    assert_null(resource->holder);
    assert_true(is_woken(1));
    assert_true(relock_resource_may_ask(resource, &waiters[1]));
    assert_ptr_equal(client.guarded.tasks, &hold->loss);
    assert_int_equal(hold->notice, RELOCK_HOLD_TO_TAKE_UP);
    assert_int_equal(client.guarded.stats.lost, 1);
    assert_int_equal(client.guarded.stats.holds, 0);
    assert_ptr_equal(relock_resource_find(resource, 1), hold); /* until its levels are released */
    relock_let_go(&client, hold, sent_ms);
}

static void a_loss_leaves_the_next_holder_alone(void **state)
{
    struct relock_hold next = {.owner = 2};

    (void)state;

    resource->holder = &next;
    relock_holds_lose(&client, hold, RELOCK_LOST_EXPIRED, sent_ms);
    assert_ptr_equal(resource->holder, &next);
    resource->holder = NULL;
    hold->lost_reason = RELOCK_LOST_TAKEN;
    relock_let_go(&client, hold, sent_ms);
}

static void a_hold_is_lost_once_its_time_has_run_out_and_not_before(void **state)
{
    (void)state;

    relock_holds_check_time(&client, hold, hold->valid_until_ms - 1);
    assert_int_equal(hold->state, RELOCK_HOLD_HELD);
    hold->cap_ms = hold->valid_until_ms;
    relock_holds_check_time(&client, hold, hold->valid_until_ms);
    assert_int_equal(hold->state, RELOCK_HOLD_LOST);
    assert_int_equal(hold->lost_reason, RELOCK_LOST_CAPPED);
    relock_holds_check_time(&client, hold, hold->valid_until_ms);
    assert_int_equal(client.guarded.stats.lost, 1);
    hold->lost_reason = RELOCK_LOST_GONE;
    relock_let_go(&client, hold, sent_ms);
}

static void a_loss_whose_levels_are_released_is_not_reported(void **state)
{
    (void)state;

    relock_holds_lose(&client, hold, RELOCK_LOST_GONE, sent_ms);
    relock_let_go(&client, hold, sent_ms);
    assert_null(client.guarded.tasks);
    assert_int_equal(hold->state, RELOCK_HOLD_ENDED);
    assert_null(relock_resource_find(resource, 1));
}

/* Redis reports "gone" and "taken"; it may not know of losses for other reasons. */
static void a_loss_that_redis_has_not_confirmed_is_settled(void **state)
{
    (void)state;

    relock_holds_lose(&client, hold, RELOCK_LOST_EXPIRED, sent_ms);
    hold->count = 2;
    relock_let_go(&client, hold, sent_ms + 7);
    assert_int_equal(hold->state, RELOCK_HOLD_SETTLING);
    assert_int_equal(hold->count, 0);
    assert_int_equal(client.guarded.n_settling, 1);
    assert_int_equal(hold->timer.due_ms, sent_ms + 7);
    assert_int_equal(hold->valid_until_ms, sent_ms + 7 + LEASE_MS);
    relock_holds_end(&client, hold);
    assert_false(relock_heap_has(&client.guarded.due, &hold->timer));
}

static void a_hold_that_is_being_released_is_not_renewed_and_still_blocks(void **state)
{
    (void)state;

    relock_holds_release(&client, hold);
    assert_int_equal(hold->state, RELOCK_HOLD_RELEASING);
    assert_false(relock_heap_has(&client.guarded.due, &hold->timer));
    assert_ptr_equal(resource->holder, hold); /* until Redis has confirmed */
    assert_null(relock_resource_find(resource, 1));
    assert_int_equal(client.guarded.stats.holds, 0);
    relock_resource_released(resource, false, sent_ms);
    relock_holds_end(&client, hold);
}

static void settling_waits_for_a_command_in_flight(void **state)
{
    (void)state;

    hold->busy = true;
    relock_holds_lose(&client, hold, RELOCK_LOST_EXPIRED, sent_ms);
    relock_let_go(&client, hold, relock_clock_after(sent_ms, 100));
    assert_false(relock_heap_has(&client.guarded.due, &hold->timer));
    relock_owner_command_end(&client, hold);
    assert_false(hold->busy);
    assert_true(relock_heap_has(&client.guarded.due, &hold->timer));
    relock_holds_end(&client, hold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOLD_TEST(a_lost_hold_is_a_signal_and_is_reported),
        HOLD_TEST(a_loss_leaves_the_next_holder_alone),
        HOLD_TEST(a_hold_is_lost_once_its_time_has_run_out_and_not_before),
        HOLD_TEST(a_loss_whose_levels_are_released_is_not_reported),
        HOLD_TEST(a_loss_that_redis_has_not_confirmed_is_settled),
        HOLD_TEST(a_hold_that_is_being_released_is_not_renewed_and_still_blocks),
        HOLD_TEST(settling_waits_for_a_command_in_flight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
