/* When a hold is cached, and what changes with it and with its next owner. */
#include "one_hold.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/hold/private.h"

#define KEEP_MS 1000

/* Nobody waits, the last level is released, and the hold may be cached. */
static void prepare(void)
{
    relock_resource_dequeue(resource, &waiters[1]);
    relock_resource_dequeue(resource, &waiters[2]);
    hold->count = 0;
    hold->cache_until_ms = resource->taken_ms + KEEP_MS;
}

static void leave(void)
{
    relock_cache_drop(&client, hold);
    relock_holds_end(&client, hold);
}

static void a_cached_hold_is_nobodys(void **state)
{
    (void)state;

    prepare();
    assert_true(relock_cache_keep(&client, hold, resource->taken_ms * 1000));
    assert_int_equal(hold->state, RELOCK_HOLD_CACHED);
    assert_false(relock_hold_is_held(hold));
    assert_false(relock_hold_is_certain(hold, resource->taken_ms));
    assert_null(hold->told);
    assert_null(resource->holder);
    assert_null(relock_resource_find(resource, 1));
    assert_null(relock_holds_find(&client, 0));
    assert_ptr_equal(relock_resource_kept(resource), hold);
    assert_int_equal(client.guarded.stats.holds, 0);
    assert_int_equal(client.guarded.stats.kept, 1);
    assert_int_equal(hold->timer.due_ms, resource->taken_ms + KEEP_MS);
    relock_holds_renew(&client, hold, resource->taken_ms + 1);
    assert_int_equal(hold->state, RELOCK_HOLD_CACHED);

    leave();
    assert_null(relock_resource_kept(resource));
    assert_int_equal(client.guarded.stats.kept, 0);
}

static void the_next_owner_gets_the_same_hold_and_verifies_it(void **state)
{
    uint64_t number = hold->number, valid_until_ms = hold->valid_until_ms;
    uint64_t now_ms = resource->taken_ms + 100;

    (void)state;

    prepare();
    assert_true(relock_cache_keep(&client, hold, resource->taken_ms * 1000));
    client.options.max_hold_ms = 5000;
    waiters[1].queues_on = NULL;
    relock_cache_give(&client, hold, &waiters[1], now_ms * 1000);
    assert_int_equal(hold->state, RELOCK_HOLD_HELD);
    assert_int_equal(hold->owner, 2);
    assert_int_equal(hold->number, number);
    assert_int_equal(hold->count, 1);
    assert_int_equal(hold->valid_until_ms, valid_until_ms);
    assert_int_equal(hold->cap_ms, now_ms + 5000);
    assert_ptr_equal(hold->told->arg, &waiters[1]);
    assert_ptr_equal(resource->holder, hold);
    assert_null(relock_resource_kept(resource));
    assert_int_equal(client.guarded.stats.reused, 1);
    assert_int_equal(client.guarded.stats.holds, 1);
    assert_int_equal(hold->timer.due_ms, now_ms + 5);
    finish();
}

/* Within the 5 ms of a verification. */
static void pairs_leave_the_timer_as_it_is(void **state)
{
    uint64_t now_ms = resource->taken_ms + 100;

    (void)state;

    prepare();
    for (int i = 0; i < 4; i++) {
        assert_true(relock_cache_keep(&client, hold, (now_ms + i) * 1000));
        waiters[1].queues_on = NULL;
        relock_shortcut_close(resource);
        relock_cache_give(&client, hold, &waiters[1], (now_ms + i) * 1000);
        hold->count = 0;
        assert_int_equal(hold->timer.due_ms, now_ms + 5);
    }
    finish();
}

static bool is_kept(uint64_t now_ms)
{
    if (!relock_cache_keep(&client, hold, now_ms * 1000)) {
        assert_ptr_equal(resource->holder, hold);
        assert_null(relock_resource_kept(resource));
        return false;
    }
    return true;
}

static void a_hold_that_may_not_be_cached_stays_as_it_is(void **state)
{
    uint64_t taken_ms = resource->taken_ms;

    (void)state;

    /* Somebody waits here. */
    hold->cache_until_ms = taken_ms + KEEP_MS;
    assert_false(is_kept(taken_ms));
    prepare();
    /* Its time is over, or it never had one. */
    assert_false(is_kept(taken_ms + KEEP_MS));
    hold->cache_until_ms = 0;
    assert_false(is_kept(taken_ms));
    hold->cache_until_ms = taken_ms + KEEP_MS;
    /* Others want it. */
    hold->recalled = true;
    assert_false(is_kept(taken_ms));
    hold->recalled = false;
    /* It is not certain, or has a fixed lease, or a longer one. */
    hold->state = RELOCK_HOLD_SUSPECT;
    assert_false(is_kept(taken_ms));
    hold->state = RELOCK_HOLD_HELD;
    hold->count_dirty = true;
    assert_false(is_kept(taken_ms));
    hold->count_dirty = false;
    hold->keeping = RELOCK_HOLD_FIXED;
    assert_false(is_kept(taken_ms));
    hold->keeping = RELOCK_HOLD_RENEWED;
    hold->lease_ms = LEASE_MS + 1;
    assert_false(is_kept(taken_ms));
    hold->lease_ms = LEASE_MS;
    /* The client is shut down. */
    client.guarded.state = RELOCK_CLIENT_SHUT_DOWN;
    assert_false(is_kept(taken_ms));
    client.guarded.state = RELOCK_CLIENT_OPEN;
    assert_true(is_kept(taken_ms));
    leave();
}

static void a_hold_that_may_be_cached_is_handed_off_for_longer(void **state)
{
    uint64_t late_ms = resource->taken_ms + 10;

    (void)state;

    client.options.handoff_ms = 10;
    assert_false(relock_cache_hand_off(&client, hold, late_ms * 1000));
    hold->cache_until_ms = resource->taken_ms + KEEP_MS;
    hold->recalled = true;
    assert_false(relock_cache_hand_off(&client, hold, late_ms * 1000));
    hold->recalled = false;
    assert_true(relock_cache_hand_off(&client, hold, late_ms * 1000));
    assert_false(relock_cache_hand_off(&client, hold, (resource->taken_ms + KEEP_MS) * 1000));
    relock_holds_unref(&client, hold); /* reference of the new owner */
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOLD_TEST(a_cached_hold_is_nobodys),
        HOLD_TEST(the_next_owner_gets_the_same_hold_and_verifies_it),
        HOLD_TEST(pairs_leave_the_timer_as_it_is),
        HOLD_TEST(a_hold_that_may_not_be_cached_stays_as_it_is),
        HOLD_TEST(a_hold_that_may_be_cached_is_handed_off_for_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
