/* How a hold begins, changes hands and ends. */
#include "lock/holds.h"
#include "lock/let_go.h"

#include "base/clock.h"
#include "kind/reentrant.h"
#include "lock/observer.h"
#include "lock/resources.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wthread-safety" /* there is one thread, and no mutex needed */
#endif

#define LEASE_MS 30000  /* that of the watchdog */
#define RENEWAL_MS 9000 /* so often */

/* A client without connections and I/O thread: nothing of what follows asks or wakes one. */
static struct relock_client client;
static struct relock_resource *resource;
static struct relock_waiter waiters[3]; /* of owners 1, 2, 3; they let the watchdog renew */
static struct relock_hold *hold;        /* taken by the first; the test has a reference */
static uint64_t sent_ms;

static bool is_woken(int i)
{
    return relock_gate_wait(&waiters[i].gate, 0);
}

/* The first waiter has got the lock, the others queue. */
static int begin(void **state)
{
    (void)state;
    memset(&client, 0, sizeof(client));
    relock_mutex_init(&client.mutex);
    relock_cond_init(&client.changed);
    client.guarded.turn_at_ms = 0; /* there is no I/O thread to be woken */
    client.options.watchdog_timeout_ms = LEASE_MS;
    client.options.handoff_ms = 1000;

    assert_int_equal(relock_resources_get(&client, &relock_kind_reentrant, "orders",
                                          strlen("orders"), &resource, &(const char *){NULL}),
                     RELOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        waiters[i] = (struct relock_waiter){.owner = i + 1, .renewed = true, .arg = &waiters[i]};
        relock_gate_init(&waiters[i].gate);
        relock_resource_enqueue(resource, &waiters[i]);
    }
    hold = relock_holds_new(&client, resource, 1);
    assert_non_null(hold);
    hold->lease_ms = LEASE_MS;
    sent_ms = relock_clock_now_ms();
    relock_holds_begin(&client, relock_holds_ref(hold), &waiters[0], sent_ms);
    resource->retry = RELOCK_RETRY_NONE; /* used up by that */
    return 0;
}

/* Whatever became of the hold, the test's reference is the last one of all. */
static int end(void **state)
{
    unsigned refs = hold->refs;

    (void)state;
    relock_holds_unref(&client, hold);
    relock_resources_unref(&client, resource);
    relock_cond_deinit(&client.changed);
    relock_mutex_deinit(&client.mutex);
    return refs == 1 && !client.guarded.resources && !client.guarded.holds ? 0 : -1;
}

/* Lets go of it, as the last release does that Redis has confirmed. */
static void finish(void)
{
    relock_holds_leave(&client, hold);
    relock_resource_released(resource, false, sent_ms);
    relock_holds_end(&client, hold);
}

/* ---- beginning ----------------------------------------------------------------------------- */

static void a_hold_matches_the_request_of_its_waiter(void **state)
{
    (void)state;

    assert_int_equal(hold->state, RELOCK_HOLD_HELD);
    assert_int_equal(hold->owner, 1);
    assert_int_equal(hold->count, 1);
    assert_int_equal(hold->keeping, RELOCK_HOLD_RENEWED);
    assert_ptr_equal(hold->arg, &waiters[0]);
    assert_true(hold->cap_ms == RELOCK_NEVER);
    assert_ptr_equal(resource->holder, hold);
    assert_ptr_equal(resource->queue, &waiters[1]);
    assert_ptr_equal(relock_resource_find(resource, 1), hold);
    assert_int_equal(client.guarded.stats.acquired, 1);
    assert_int_equal(client.guarded.stats.holds, 1);
    finish();
    assert_int_equal(client.guarded.stats.holds, 0);
}

static void a_hold_is_certain_since_its_acquire_was_sent(void **state)
{
    (void)state;

    assert_int_equal(hold->valid_until_ms, sent_ms + LEASE_MS - 302);
    assert_int_equal(hold->renew_at_ms, sent_ms + RENEWAL_MS);
    assert_true(relock_timer_is_set(&client.guarded.timers, &hold->timer));
    assert_int_equal(hold->timer.due_ms, hold->renew_at_ms);
    finish();
    assert_false(relock_timer_is_set(&client.guarded.timers, &hold->timer));
}

static void each_hold_has_a_number_of_its_own(void **state)
{
    struct relock_hold *other = relock_holds_new(&client, resource, 1);

    (void)state;

    assert_non_null(other);
    assert_true(other->number != hold->number);
    assert_int_equal(other->state, RELOCK_HOLD_ASKED);
    relock_holds_end(&client, other);
    finish();
}

static void a_lease_is_lengthened_and_never_shortened(void **state)
{
    uint64_t valid_until_ms = hold->valid_until_ms;

    (void)state;

    relock_holds_prolong(&client, hold, sent_ms, 1000);
    assert_int_equal(hold->valid_until_ms, valid_until_ms);
    relock_holds_prolong(&client, hold, sent_ms + 500, LEASE_MS);
    assert_int_equal(hold->valid_until_ms, valid_until_ms + 500);
    relock_holds_prolong(&client, hold, sent_ms, 60000);
    assert_int_equal(hold->valid_until_ms, sent_ms + 60000 - 602);

    relock_holds_keep(&client, hold, RELOCK_HOLD_FIXED);
    assert_int_equal(hold->timer.due_ms, hold->valid_until_ms);
    finish();
}

static void an_attempt_counts_granted_or_not(void **state)
{
    (void)state;

    relock_holds_begin_owner_command(hold, 60000);
    assert_true(hold->busy);
    assert_int_equal(hold->lease_ms, 60000);
    relock_holds_end_owner_command(&client, hold);
    assert_false(hold->busy);
    relock_holds_begin_owner_command(hold, 1000);
    assert_int_equal(hold->lease_ms, 60000);
    relock_holds_end_owner_command(&client, hold);
    for (int i = 0; i < 2; i++)
        relock_holds_unref(&client, hold); /* of the commands */
    finish();
}

/* ---- handing off --------------------------------------------------------------------------- */

static void a_hold_is_handed_off_number_and_all(void **state)
{
    uint64_t number = hold->number;
    uint64_t valid_until_ms = hold->valid_until_ms;

    (void)state;

    (void)is_woken(1);
    hold->count = 0;
    client.options.max_hold_ms = 5000;
    assert_true(relock_holds_hand_off(&client, hold, resource->taken_ms + 7));
    assert_int_equal(hold->cap_ms, resource->taken_ms + 5007);
    assert_int_equal(waiters[1].end, RELOCK_WAITER_GRANTED);
    assert_ptr_equal(waiters[1].hold, hold);
    assert_true(is_woken(1));
    assert_int_equal(hold->number, number);
    assert_int_equal(hold->valid_until_ms, valid_until_ms);
    assert_int_equal(hold->timer.due_ms, resource->taken_ms + 12); /* to be verified */
    assert_int_equal(hold->owner, 2);
    assert_int_equal(hold->count, 1);
    assert_ptr_equal(hold->arg, &waiters[1]);
    assert_ptr_equal(resource->holder, hold);
    assert_ptr_equal(resource->queue, &waiters[2]);
    assert_null(relock_resource_find(resource, 1));
    assert_ptr_equal(relock_resource_find(resource, 2), hold);
    assert_int_equal(client.guarded.stats.passed_on, 1);
    assert_int_equal(client.guarded.stats.holds, 1);
    relock_holds_unref(&client, hold); /* the new owner's */
    finish();
}

static void a_former_waiter_is_handed_no_hold(void **state)
{
    (void)state;

    waiters[1].end = RELOCK_WAITER_UNREACHED;
    assert_true(relock_holds_hand_off(&client, hold, resource->taken_ms));
    assert_ptr_equal(waiters[2].hold, hold);
    assert_ptr_equal(resource->queue, &waiters[1]);
    relock_holds_unref(&client, hold);
    finish();
}

static void one_renewal_verifies_all_hand_offs_of_5_ms(void **state)
{
    (void)state;

    assert_true(relock_holds_hand_off(&client, hold, resource->taken_ms + 7));
    assert_true(relock_holds_hand_off(&client, hold, resource->taken_ms + 10));
    assert_int_equal(hold->timer.due_ms, resource->taken_ms + 12);
    for (int i = 0; i < 2; i++)
        relock_holds_unref(&client, hold); /* the heirs' */
    finish();
}

static void a_renewal_sent_before_the_hand_off_does_not_verify_it(void **state)
{
    (void)state;

    relock_holds_send(hold, sent_ms);
    assert_true(relock_holds_hand_off(&client, hold, resource->taken_ms + 7));
    relock_holds_renew(&client, hold, resource->taken_ms + 20);
    relock_holds_end_command(&client, hold, resource->taken_ms + 20);
    assert_int_equal(hold->timer.due_ms, resource->taken_ms + 25);

    relock_holds_send(hold, sent_ms);
    relock_holds_renew(&client, hold, resource->taken_ms + 30);
    relock_holds_end_command(&client, hold, resource->taken_ms + 30);
    assert_int_equal(hold->timer.due_ms, sent_ms + RENEWAL_MS);
    relock_holds_unref(&client, hold);
    finish();
}

static bool is_handed_off(uint64_t now_ms)
{
    bool handed_off = relock_holds_hand_off(&client, hold, now_ms);

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

    /* The process has had it for long enough: others have their turn. */
    assert_false(is_handed_off(taken_ms + client.options.handoff_ms));
    /* It is not certain, or not for long enough. */
    hold->state = RELOCK_HOLD_SUSPECT;
    assert_false(is_handed_off(taken_ms));
    hold->state = RELOCK_HOLD_HELD;
    client.options.handoff_ms = RELOCK_NEVER;
    assert_false(is_handed_off(hold->valid_until_ms - RENEWAL_MS + 1));
    /* Nobody renews it, or not any more. */
    hold->keeping = RELOCK_HOLD_FIXED;
    assert_false(is_handed_off(taken_ms));
    hold->keeping = RELOCK_HOLD_RENEWED;
    hold->cap_ms = taken_ms;
    assert_false(is_handed_off(taken_ms));
    hold->cap_ms = RELOCK_NEVER;
    /* Redis may have another count of it. */
    hold->count_dirty = true;
    assert_false(is_handed_off(taken_ms));
    hold->count_dirty = false;
    /* It could last longer than one that the new owner acquires itself. */
    hold->lease_ms = LEASE_MS + 1;
    assert_false(is_handed_off(taken_ms));
    hold->lease_ms = LEASE_MS;
    /* Nothing new begins. */
    client.guarded.state = RELOCK_CLIENT_SHUT_DOWN;
    assert_false(is_handed_off(taken_ms));
    client.guarded.state = RELOCK_CLIENT_OPEN;
    /* The one whose turn it is wants a lease of its own; it is not passed over for that. */
    waiters[1].renewed = false;
    assert_false(is_handed_off(taken_ms));
    waiters[1].renewed = true;

    assert_true(is_handed_off(hold->valid_until_ms - RENEWAL_MS));
    relock_holds_unref(&client, hold);
    /* Nobody waits. */
    relock_resource_dequeue(resource, &waiters[2]);
    assert_false(relock_holds_hand_off(&client, hold, taken_ms));
    finish();
}

/* ---- ending -------------------------------------------------------------------------------- */

static void end_lost(struct relock_hold *lost, uint64_t now_ms)
{
    relock_holds_leave_lost(&client, lost);
    relock_let_go_lost(&client, lost, now_ms);
}

static void a_lost_hold_is_a_signal_and_is_reported(void **state)
{
    (void)state;

    (void)is_woken(1);
    relock_holds_lose(&client, hold, RELOCK_LOST_GONE, sent_ms);
    assert_int_equal(hold->state, RELOCK_HOLD_LOST);
    assert_int_equal(hold->lost_reason, RELOCK_LOST_GONE);
    assert_false(relock_timer_is_set(&client.guarded.timers, &hold->timer));
    assert_null(resource->holder);
    assert_true(is_woken(1));
    assert_true(relock_resource_may_ask(resource, &waiters[1]));
    assert_ptr_equal(client.guarded.losses, hold);
    assert_int_equal(hold->notice, RELOCK_HOLD_TO_TAKE_UP);
    assert_int_equal(client.guarded.stats.lost, 1);
    assert_int_equal(client.guarded.stats.holds, 0);
    assert_ptr_equal(relock_resource_find(resource, 1),
                     hold); /* its levels are still to be released */
    end_lost(hold, sent_ms);
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
    end_lost(hold, sent_ms);
}

static void a_hold_is_lost_when_its_time_has_run_out_and_not_before(void **state)
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
    end_lost(hold, sent_ms);
}

static void a_loss_whose_levels_are_released_is_not_reported(void **state)
{
    (void)state;

    relock_holds_lose(&client, hold, RELOCK_LOST_GONE, sent_ms);
    end_lost(hold, sent_ms);
    assert_null(client.guarded.losses);
    assert_int_equal(hold->state, RELOCK_HOLD_ENDED);
    assert_null(relock_resource_find(resource, 1));
}

/* Gone or taken is what Redis said; the other losses are our own opinion. */
static void a_loss_that_redis_may_not_know_of_is_settled(void **state)
{
    (void)state;

    relock_holds_lose(&client, hold, RELOCK_LOST_EXPIRED, sent_ms);
    hold->count = 2;
    end_lost(hold, sent_ms + 7);
    assert_int_equal(hold->state, RELOCK_HOLD_SETTLING);
    assert_int_equal(hold->count, 0);
    assert_int_equal(client.guarded.n_settling, 1);
    assert_int_equal(hold->timer.due_ms, sent_ms + 7);
    assert_int_equal(hold->valid_until_ms, sent_ms + 7 + LEASE_MS);
    relock_holds_end(&client, hold);
    assert_false(relock_timer_is_set(&client.guarded.timers, &hold->timer));
}

static void a_hold_that_is_being_released_is_not_renewed_and_still_blocks(void **state)
{
    (void)state;

    relock_holds_leave(&client, hold);
    assert_int_equal(hold->state, RELOCK_HOLD_LEAVING);
    assert_false(relock_timer_is_set(&client.guarded.timers, &hold->timer));
    assert_ptr_equal(resource->holder, hold); /* until Redis has been told */
    assert_null(relock_resource_find(resource, 1));
    assert_int_equal(client.guarded.stats.holds, 0);
    relock_resource_released(resource, false, sent_ms);
    relock_holds_end(&client, hold);
}

static void settling_waits_for_the_command_in_flight(void **state)
{
    (void)state;

    hold->busy = true;
    relock_holds_lose(&client, hold, RELOCK_LOST_EXPIRED, sent_ms);
    end_lost(hold, relock_clock_after(sent_ms, 100));
    assert_false(relock_timer_is_set(&client.guarded.timers, &hold->timer));
    relock_holds_end_owner_command(&client, hold);
    assert_false(hold->busy);
    assert_true(relock_timer_is_set(&client.guarded.timers, &hold->timer));
    relock_holds_end(&client, hold);
}

/* ---- detached holds and observers ---------------------------------------------------------- */

static unsigned n_gone;

static void count_gone(struct relock_observer *observer)
{
    (void)observer;
    n_gone++;
}

static void an_observer_ends_with_its_hold_unless_it_was_removed(void **state)
{
    static const struct relock_observer_ops ops = {.gone = count_gone};
    struct relock_hold *other = relock_holds_new_detached(&client, resource, 7);
    struct relock_observer stays = {.ops = &ops};
    struct relock_observer leaves = {.ops = &ops};

    (void)state;

    n_gone = 0;
    assert_non_null(other);
    relock_observer_add(&client, other, &stays);
    relock_observer_add(&client, other, &leaves);
    relock_observer_remove(&client, other, &leaves);
    relock_holds_end(&client, other);
    assert_int_equal(n_gone, 1);
    finish();
}

static void a_detached_hold_is_nobodys_here(void **state)
{
    struct relock_hold *other = relock_holds_new_detached(&client, resource, 7);

    (void)state;

    assert_non_null(other);
    other->renewal_ms = LEASE_MS;
    other->lease_ms = LEASE_MS;
    other->keeping = RELOCK_HOLD_RENEWED;
    other->cap_ms = RELOCK_NEVER;
    relock_holds_begin_detached(&client, other, sent_ms, LEASE_MS);
    assert_int_equal(other->state, RELOCK_HOLD_HELD);
    assert_int_equal(other->valid_until_ms, sent_ms + LEASE_MS - 302);
    assert_int_equal(other->timer.due_ms, sent_ms + RENEWAL_MS);
    assert_null(relock_resource_find(resource, 7));
    assert_int_equal(client.guarded.stats.holds, 1);
    relock_holds_lose(&client, other, RELOCK_LOST_EXPIRED, sent_ms);
    assert_ptr_equal(resource->holder, hold);
    assert_int_equal(client.guarded.stats.lost, 0);
    relock_let_go(&client, other, sent_ms);
    assert_int_equal(other->state, RELOCK_HOLD_SETTLING);
    assert_null(client.guarded.losses);
    relock_holds_end(&client, other);
    assert_int_equal(client.guarded.stats.holds, 1);
    finish();
}

#define HOLDS_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOLDS_TEST(a_hold_matches_the_request_of_its_waiter),
        HOLDS_TEST(a_hold_is_certain_since_its_acquire_was_sent),
        HOLDS_TEST(each_hold_has_a_number_of_its_own),
        HOLDS_TEST(a_lease_is_lengthened_and_never_shortened),
        HOLDS_TEST(an_attempt_counts_granted_or_not),
        HOLDS_TEST(a_hold_is_handed_off_number_and_all),
        HOLDS_TEST(one_renewal_verifies_all_hand_offs_of_5_ms),
        HOLDS_TEST(a_renewal_sent_before_the_hand_off_does_not_verify_it),
        HOLDS_TEST(a_former_waiter_is_handed_no_hold),
        HOLDS_TEST(a_hold_that_may_not_be_handed_off_stays_as_it_is),
        HOLDS_TEST(a_lost_hold_is_a_signal_and_is_reported),
        HOLDS_TEST(a_loss_leaves_the_next_holder_alone),
        HOLDS_TEST(a_hold_is_lost_when_its_time_has_run_out_and_not_before),
        HOLDS_TEST(a_loss_whose_levels_are_released_is_not_reported),
        HOLDS_TEST(a_loss_that_redis_may_not_know_of_is_settled),
        HOLDS_TEST(a_hold_that_is_being_released_is_not_renewed_and_still_blocks),
        HOLDS_TEST(an_observer_ends_with_its_hold_unless_it_was_removed),
        HOLDS_TEST(a_detached_hold_is_nobodys_here),
        HOLDS_TEST(settling_waits_for_the_command_in_flight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
