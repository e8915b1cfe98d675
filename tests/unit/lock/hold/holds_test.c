/* How a hold begins, grows and is watched. */
#include "one_hold.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/hold/private.h"
#include "lock/state/observer.h"

/* ---- beginning ----------------------------------------------------------------------------- */

static void a_hold_matches_the_request_of_its_waiter(void **state)
{
    (void)state;

    assert_int_equal(hold->state, RELOCK_HOLD_HELD);
    assert_int_equal(hold->owner, 1);
    assert_int_equal(hold->count, 1);
    assert_int_equal(hold->keeping, RELOCK_HOLD_RENEWED);
    assert_ptr_equal(hold->told->arg, &waiters[0]);
    assert_true(hold->cap_ms == RELOCK_NEVER);
    assert_ptr_equal(resource->holder, hold);
    assert_ptr_equal(resource->queue, &waiters[1]);
    assert_ptr_equal(relock_resource_find(resource, 1), hold);
    assert_int_equal(client.guarded.stats.acquired, 1);
    assert_int_equal(client.guarded.stats.holds, 1);
    finish();
    assert_int_equal(client.guarded.stats.holds, 0);
}

static void certainty_counts_from_the_send_of_the_acquire(void **state)
{
    (void)state;

    assert_int_equal(hold->valid_until_ms, sent_ms + LEASE_MS - 302);
    assert_int_equal(hold->renew_at_ms, renewal_after(sent_ms));
    assert_true(relock_heap_has(&client.guarded.due, &hold->timer));
    assert_int_equal(hold->timer.due_ms, hold->renew_at_ms);
    finish();
    assert_false(relock_heap_has(&client.guarded.due, &hold->timer));
}

static void no_two_holds_have_the_same_number(void **state)
{
    struct relock_hold *other = relock_holds_new(&client, resource, 1, false);

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

    relock_holds_prolong(&client, hold, relock_hold_valid_until(sent_ms, 1000));
    assert_int_equal(hold->valid_until_ms, valid_until_ms);
    relock_holds_prolong(&client, hold, relock_hold_valid_until(sent_ms + 500, LEASE_MS));
    assert_int_equal(hold->valid_until_ms, valid_until_ms + 500);
    relock_holds_prolong(&client, hold, relock_hold_valid_until(sent_ms, 60000));
    assert_int_equal(hold->valid_until_ms, sent_ms + 60000 - 602);

    relock_holds_keep(&client, hold, RELOCK_HOLD_FIXED);
    assert_int_equal(hold->timer.due_ms, hold->valid_until_ms);
    finish();
}

/* Of two timers that are due together, the one that was set first stays the next. */
static void a_renewal_sets_the_timer_once(void **state)
{
    uint64_t renewed_ms = hold->renew_at_ms;
    struct relock_heap_link later = {0};

    (void)state;

    relock_holds_send(hold, renewed_ms);
    relock_holds_arm(&client, hold, renewed_ms);
    assert_int_equal(hold->timer.due_ms, renewal_after(renewed_ms));
    relock_heap_set(&client.guarded.due, &later, hold->timer.due_ms);
    relock_holds_renew(&client, hold, renewed_ms + 1);
    relock_holds_end_command(&client, hold, renewed_ms + 1);
    assert_int_equal(hold->timer.due_ms, renewal_after(renewed_ms));
    assert_ptr_equal(client.guarded.due.root, &hold->timer);
    relock_heap_unset(&client.guarded.due, &later);
    finish();
}

#define AHEAD_MS 50

static bool may_be_sooner(void)
{
    bool may = relock_heap_has(&client.guarded.ahead, &hold->timer);

    assert_true(may || relock_heap_has(&client.guarded.due, &hold->timer));
    return may;
}

/* Nor is a hand-off verified sooner, or a failed renewal repeated. */
static void only_a_renewal_that_is_not_due_soon_may_be_sent_sooner(void **state)
{
    uint64_t now_ms = relock_clock_now_ms();

    (void)state;

    assert_false(may_be_sooner());
    client.guarded.batches.ahead_ms = AHEAD_MS;
    hold->renew_at_ms = now_ms + AHEAD_MS + 1;
    relock_holds_arm(&client, hold, now_ms);
    assert_true(may_be_sooner());
    assert_int_equal(hold->timer.due_ms, hold->renew_at_ms);
    hold->renew_at_ms = now_ms + AHEAD_MS;
    relock_holds_arm(&client, hold, now_ms);
    assert_false(may_be_sooner());

    hold->renew_at_ms = now_ms + 1000;
    relock_holds_arm(&client, hold, now_ms);
    assert_true(may_be_sooner());
    relock_holds_verify(&client, hold, now_ms);
    assert_false(may_be_sooner());

    relock_holds_suspect(&client, hold, now_ms + 1000);
    relock_holds_arm(&client, hold, now_ms);
    assert_false(may_be_sooner());
    finish();
}

/* A lock with a shorter lease than the client's would be renewed much more often. */
static void a_renewal_of_a_shorter_lease_is_sent_when_it_is_due(void **state)
{
    uint64_t now_ms = relock_clock_now_ms();

    (void)state;

    client.guarded.batches.ahead_ms = AHEAD_MS;
    hold->renewal_ms = LEASE_MS - 1;
    hold->renew_at_ms = now_ms + 1000;
    relock_holds_arm(&client, hold, now_ms);
    assert_false(may_be_sooner());
    finish();
}

/* The I/O thread was held up, and so were many holds that were due meanwhile. */
static void a_renewal_that_is_late_does_not_put_off_the_next_one(void **state)
{
    uint64_t due_ms = hold->renew_at_ms;

    (void)state;

    relock_holds_send(hold, due_ms + RENEWAL_MS / 2);
    assert_int_equal(hold->renew_at_ms, renewal_after(due_ms));
    hold->renew_at_ms = due_ms;
    relock_holds_send(hold, due_ms + 3 * RENEWAL_MS + 7);
    assert_int_equal(hold->renew_at_ms, renewal_after(due_ms + 3 * RENEWAL_MS));
    finish();
}

/* At most an interval later, as always. */
static void suspect_holds_that_are_renewed_together_are_spread(void **state)
{
    uint64_t again_ms = sent_ms + 5000;
    unsigned n_in_part[4] = {0};

    (void)state;

    for (int i = 0; i < 100; i++) {
        hold->number++;
        relock_holds_suspect(&client, hold, again_ms);
        relock_holds_send(hold, again_ms);
        assert_in_range(hold->renew_at_ms, again_ms - RENEWAL_MS / 10, again_ms + RENEWAL_MS);
        n_in_part[relock_clock_left(again_ms + 1, hold->renew_at_ms) * 4 / RENEWAL_MS]++;
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(n_in_part[i], 15, 40);
    hold->state = RELOCK_HOLD_HELD;
    relock_holds_send(hold, again_ms);
    finish();
}

/* Replicas acknowledge a renewal over a connection of its own. The other one may break meanwhile,
 * and only suspect holds are renewed when there is a connection again. */
static void a_suspect_hold_that_is_confirmed_is_renewed_again(void **state)
{
    (void)state;

    relock_holds_suspect(&client, hold, RELOCK_NEVER);
    relock_holds_confirm(&client, hold, sent_ms + 1, sent_ms + 2);
    assert_int_equal(hold->state, RELOCK_HOLD_HELD);
    assert_int_equal(hold->renew_at_ms, renewal_after(sent_ms + 1));
    finish();
}

static void the_lease_of_an_attempt_counts_whatever_its_outcome(void **state)
{
    (void)state;

    relock_owner_command_begin(hold, 60000);
    assert_true(hold->busy);
    assert_int_equal(hold->lease_ms, 60000);
    relock_owner_command_end(&client, hold);
    assert_false(hold->busy);
    relock_owner_command_begin(hold, 1000);
    assert_int_equal(hold->lease_ms, 60000);
    relock_owner_command_end(&client, hold);
    for (int i = 0; i < 2; i++)
        relock_holds_unref(&client, hold); /* references of the commands */
    finish();
}

/* ---- after an outage ----------------------------------------------------------------------- */

static void after_an_outage_the_hold_whose_time_ends_first_is_the_first(void **state)
{
    struct relock_hold *other = relock_holds_new(&client, resource, 7, true);

    (void)state;

    assert_non_null(other);
    other->renewal_ms = other->lease_ms = LEASE_MS;
    other->keeping = RELOCK_HOLD_RENEWED;
    other->cap_ms = RELOCK_NEVER;
    relock_holds_begin_detached(&client, other, sent_ms, LEASE_MS);
    for (int i = 0; i < 2; i++) {
        struct relock_hold *first = i == 0 ? other : hold;
        struct relock_hold *last = i == 0 ? hold : other;

        first->valid_until_ms = sent_ms + 20000;
        last->valid_until_ms = sent_ms + 20100;
        relock_holds_suspect(&client, hold, RELOCK_NEVER);
        relock_holds_suspect(&client, other, RELOCK_NEVER);
        relock_watchdog_up(&client);
        assert_ptr_equal(client.guarded.due.root, &first->timer);
        assert_true(last->timer.due_ms <= relock_clock_now_ms());
    }
    relock_let_go(&client, other, sent_ms);
    relock_holds_end(&client, other);
    finish();
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
    struct relock_hold *other = relock_holds_new(&client, resource, 7, true);
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

static void a_detached_hold_belongs_to_no_owner_here(void **state)
{
    struct relock_hold *other = relock_holds_new(&client, resource, 7, true);

    (void)state;

    assert_non_null(other);
    other->renewal_ms = LEASE_MS;
    other->lease_ms = LEASE_MS;
    other->keeping = RELOCK_HOLD_RENEWED;
    other->cap_ms = RELOCK_NEVER;
    relock_holds_begin_detached(&client, other, sent_ms, LEASE_MS);
    assert_int_equal(other->state, RELOCK_HOLD_HELD);
    assert_int_equal(other->valid_until_ms, sent_ms + LEASE_MS - 302);
    assert_int_equal(other->timer.due_ms, renewal_after(sent_ms));
    assert_null(relock_resource_find(resource, 7));
    assert_int_equal(client.guarded.stats.holds, 1);
    relock_holds_lose(&client, other, RELOCK_LOST_EXPIRED, sent_ms);
    assert_ptr_equal(resource->holder, hold);
    assert_int_equal(client.guarded.stats.lost, 0);
    relock_let_go(&client, other, sent_ms);
    assert_int_equal(other->state, RELOCK_HOLD_SETTLING);
    assert_null(client.guarded.tasks);
    relock_holds_end(&client, other);
    assert_int_equal(client.guarded.stats.holds, 1);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOLD_TEST(a_hold_matches_the_request_of_its_waiter),
        HOLD_TEST(certainty_counts_from_the_send_of_the_acquire),
        HOLD_TEST(no_two_holds_have_the_same_number),
        HOLD_TEST(a_lease_is_lengthened_and_never_shortened),
        HOLD_TEST(a_renewal_sets_the_timer_once),
        HOLD_TEST(only_a_renewal_that_is_not_due_soon_may_be_sent_sooner),
        HOLD_TEST(a_renewal_of_a_shorter_lease_is_sent_when_it_is_due),
        HOLD_TEST(a_renewal_that_is_late_does_not_put_off_the_next_one),
        HOLD_TEST(suspect_holds_that_are_renewed_together_are_spread),
        HOLD_TEST(a_suspect_hold_that_is_confirmed_is_renewed_again),
        HOLD_TEST(the_lease_of_an_attempt_counts_whatever_its_outcome),
        HOLD_TEST(after_an_outage_the_hold_whose_time_ends_first_is_the_first),
        HOLD_TEST(an_observer_ends_with_its_hold_unless_it_was_removed),
        HOLD_TEST(a_detached_hold_belongs_to_no_owner_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
