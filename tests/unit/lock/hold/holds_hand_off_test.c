/* When a hold is handed off to the next waiter, and what changes. */
#include "one_hold.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/hold/private.h"

static void a_hold_that_is_handed_off_keeps_its_number_and_lease(void **state)
{
    uint64_t number = hold->number;
    uint64_t valid_until_ms = hold->valid_until_ms;

    (void)state;

    (void)is_woken(1);
    hold->count = 0;
    client.options.max_hold_ms = 5000;
    assert_true(relock_cache_hand_off(&client, hold, 1000 * (resource->taken_ms + 7)));
    assert_int_equal(hold->cap_ms, resource->taken_ms + 5007);
    assert_int_equal(waiters[1].end, RELOCK_WAITER_GRANTED);
    assert_ptr_equal(waiters[1].hold, hold);
    assert_true(is_woken(1));
    assert_int_equal(hold->number, number);
    assert_int_equal(hold->valid_until_ms, valid_until_ms);
    assert_int_equal(hold->timer.due_ms, resource->taken_ms + 12); /* to verify the hand-off */
    assert_int_equal(hold->owner, 2);
    assert_int_equal(hold->count, 1);
    assert_ptr_equal(hold->told->arg, &waiters[1]);
    assert_ptr_equal(resource->holder, hold);
    assert_ptr_equal(resource->queue, &waiters[2]);
    assert_null(relock_resource_find(resource, 1));
    assert_ptr_equal(relock_resource_find(resource, 2), hold);
    assert_int_equal(client.guarded.stats.passed_on, 1);
    assert_int_equal(client.guarded.stats.holds, 1);
    relock_holds_unref(&client, hold); /* reference of the new owner */
    finish();
}

static void a_waiter_whose_wait_has_ended_is_skipped(void **state)
{
    (void)state;

    waiters[1].end = RELOCK_WAITER_UNREACHED;
    assert_true(relock_cache_hand_off(&client, hold, 1000 * resource->taken_ms));
    assert_ptr_equal(waiters[2].hold, hold);
    assert_ptr_equal(resource->queue, &waiters[1]);
    relock_holds_unref(&client, hold);
    finish();
}

static void one_renewal_verifies_the_hand_offs_of_5_ms(void **state)
{
    (void)state;

    assert_true(relock_cache_hand_off(&client, hold, 1000 * (resource->taken_ms + 7)));
    assert_true(relock_cache_hand_off(&client, hold, 1000 * (resource->taken_ms + 10)));
    assert_int_equal(hold->timer.due_ms, resource->taken_ms + 12);
    for (int i = 0; i < 2; i++)
        relock_holds_unref(&client, hold); /* references of the new owners */
    finish();
}

static void a_renewal_sent_before_the_hand_off_does_not_verify_it(void **state)
{
    (void)state;

    relock_holds_send(hold, sent_ms);
    assert_true(relock_cache_hand_off(&client, hold, 1000 * (resource->taken_ms + 7)));
    relock_holds_renew(&client, hold, resource->taken_ms + 20);
    relock_holds_end_command(&client, hold, resource->taken_ms + 20);
    assert_int_equal(hold->timer.due_ms, resource->taken_ms + 25);

    relock_holds_send(hold, sent_ms);
    relock_holds_renew(&client, hold, resource->taken_ms + 30);
    relock_holds_end_command(&client, hold, resource->taken_ms + 30);
    assert_int_equal(hold->timer.due_ms, renewal_after(sent_ms));
    relock_holds_unref(&client, hold);
    finish();
}

static bool is_handed_off(uint64_t now_ms)
{
    bool handed_off = relock_cache_hand_off(&client, hold, 1000 * now_ms);

    if (!handed_off) {
        assert_int_equal(hold->owner, 1);
        assert_ptr_equal(resource->holder, hold);
        assert_int_equal(waiters[1].end, RELOCK_WAITER_WAITS);
        assert_int_equal(client.guarded.stats.passed_on, 0);
    }
    return handed_off;
}

static void a_hold_that_may_not_be_handed_off_stays_as_it_is(void **state)
{
    uint64_t taken_ms = resource->taken_ms;

    (void)state;

    /* The turn of this process is over. */
    assert_false(is_handed_off(taken_ms + client.options.handoff_ms));
    /* The hold is not certain, or not for long enough. */
    hold->state = RELOCK_HOLD_SUSPECT;
    assert_false(is_handed_off(taken_ms));
    hold->state = RELOCK_HOLD_HELD;
    client.options.handoff_ms = RELOCK_NEVER;
    assert_false(is_handed_off(hold->valid_until_ms - RENEWAL_MS + 1));
    /* The watchdog does not renew it, or no longer. */
    hold->keeping = RELOCK_HOLD_FIXED;
    assert_false(is_handed_off(taken_ms));
    hold->keeping = RELOCK_HOLD_RENEWED;
    hold->cap_ms = taken_ms;
    assert_false(is_handed_off(taken_ms));
    hold->cap_ms = RELOCK_NEVER;
    /* The level count in Redis may differ. */
    hold->count_dirty = true;
    assert_false(is_handed_off(taken_ms));
    hold->count_dirty = false;
    /* It could outlive a lock that the new owner acquires itself. */
    hold->lease_ms = LEASE_MS + 1;
    assert_false(is_handed_off(taken_ms));
    hold->lease_ms = LEASE_MS;
    /* The client is shut down. */
    client.guarded.state = RELOCK_CLIENT_SHUT_DOWN;
    assert_false(is_handed_off(taken_ms));
    client.guarded.state = RELOCK_CLIENT_OPEN;
    /* The next waiter wants a fixed lease. It is not skipped. */
    waiters[1].renewed = false;
    assert_false(is_handed_off(taken_ms));
    waiters[1].renewed = true;

    assert_true(is_handed_off(hold->valid_until_ms - RENEWAL_MS));
    relock_holds_unref(&client, hold);
    /* There is no waiter. */
    relock_resource_dequeue(resource, &waiters[2]);
    assert_false(relock_cache_hand_off(&client, hold, 1000 * taken_ms));
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOLD_TEST(a_hold_that_is_handed_off_keeps_its_number_and_lease),
        HOLD_TEST(a_waiter_whose_wait_has_ended_is_skipped),
        HOLD_TEST(one_renewal_verifies_the_hand_offs_of_5_ms),
        HOLD_TEST(a_renewal_sent_before_the_hand_off_does_not_verify_it),
        HOLD_TEST(a_hold_that_may_not_be_handed_off_stays_as_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
