/* The checker on exclusion, losses and releases: each violation, and each history that only
 * looks like one. */
#include "story.h"

#include <relock.h>

/* A hold from 0 to 100, certain all the time. */
static void one_hold(void)
{
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 900);
    story_leave(0, 1, 100, 110, RELOCK_OK);
}

/* ---- exclusion ----------------------------------------------------------------------------- */

static void holds_in_turn_are_clean(void **state)
{
    (void)state;
    one_hold();
    story_take(1, 1, 5, 105);
    story_claim(1, 1, 120, 900);
    story_claim(1, 1, 1500, 900);
    story_leave(1, 1, 1600, 1610, RELOCK_OK);
    story_take(0, 2, 100, 1605);
    story_claim(0, 2, 1620, 900);
    story_leave(0, 2, 1700, 1710, RELOCK_OK);
    story_is_clean();
}

static void two_claims_at_once_are_found(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_take(1, 1, 0, 20);
    story_claim(0, 1, 30, 50);
    story_claim(1, 1, 40, 50);
    story_leave(0, 1, 100, 110, RELOCK_LOST);
    story_leave(1, 1, 120, 130, RELOCK_LOST);
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void a_claim_between_two_of_another_is_found(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 10);
    story_take(1, 1, 0, 40);
    story_claim(1, 1, 50, 10);
    story_leave(1, 1, 55, 60, RELOCK_OK);
    story_claim(0, 1, 70, 10);
    story_leave(0, 1, 200, 210, RELOCK_LOST);
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void a_promise_that_another_breaks_is_found(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 900);
    story_take(1, 1, 0, 40);
    story_claim(1, 1, 50, 900);
    story_leave(1, 1, 60, 70, RELOCK_OK);
    story_leave(0, 1, 2000, 2010, RELOCK_LOST);
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void a_promise_outlives_its_process(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 900);
    story_add(HISTORY_KILLED, 0, 0, 30, 30);
    story_take(1, 1, 0, 919);
    story_claim(1, 1, 950, 900);
    story_leave(1, 1, 960, 970, RELOCK_OK);
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void an_old_hold_that_reaches_far_is_compared_with_all(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 500);
    for (unsigned i = 1; i <= 3; i++) {
        story_take(1, i, 0, 100 * i);
        story_claim(1, i, 100 * i + 10, 20);
        story_leave(1, i, 100 * i + 40, 100 * i + 50, RELOCK_OK);
    }
    story_leave(0, 1, 1000, 1010, RELOCK_LOST);
    story_shows(CHECK_TWO_HOLDERS, 3);
}

static void a_promise_ends_with_the_release(void **state)
{
    (void)state;
    one_hold();
    story_take(1, 1, 0, 101); /* the reply to the release is still in flight */
    story_claim(1, 1, 102, 900);
    story_leave(1, 1, 200, 210, RELOCK_OK);
    story_is_clean();
}

static void a_promise_that_has_run_out_binds_nobody(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 50);
    story_claim(0, 1, 80, 0);
    story_take(1, 1, 0, 71);
    story_claim(1, 1, 75, 900);
    story_leave(0, 1, 90, 95, RELOCK_LOST);
    story_leave(1, 1, 100, 110, RELOCK_OK);
    story_is_clean();
}

static void locks_do_not_exclude_each_other(void **state)
{
    (void)state;
    one_hold();
    story_take(1, 1, 0, 20);
    story_claim(1, 1, 30, 900);
    story_leave(1, 1, 50, 60, RELOCK_OK);
    for (size_t i = 3; i < story.n; i++)
        story.at[i].lock = story.at[i].slot;
    story_is_clean();
}

/* ---- releases and losses ------------------------------------------------------------------- */

static void ok_for_a_lock_that_another_took_is_found(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_take(1, 1, 20, 30); /* asked and granted within the other hold: no claim is needed */
    story_leave(1, 1, 40, 50, RELOCK_OK);
    story_leave(0, 1, 100, 110, RELOCK_OK);
    story_shows(CHECK_OK_THOUGH_TAKEN, 1);
}

static void ok_for_a_lock_that_a_waiter_was_certain_of_is_found(void **state)
{
    (void)state;
    story_take(0, 1, 5, 10);
    story_take(1, 1, 0, 30);
    story_claim(1, 1, 35, 900);
    story_leave(1, 1, 40, 50, RELOCK_OK);
    story_leave(0, 1, 100, 110, RELOCK_OK);
    story_shows(CHECK_OK_THOUGH_TAKEN, 1);
}

static void lost_for_a_lock_that_another_took_is_clean(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 12, 5);
    story_take(1, 1, 20, 30);
    story_leave(1, 1, 40, 50, RELOCK_OK);
    story_leave(0, 1, 100, 110, RELOCK_LOST);
    story_is_clean();
}

static void an_earlier_grant_that_was_answered_late_is_clean(void **state)
{
    (void)state;
    story_take(1, 1, 0, 30); /* granted, stopped, and lost before the other grant */
    story_claim(1, 1, 35, 0);
    story_leave(1, 1, 40, 50, RELOCK_LOST);
    story_take(0, 1, 5, 10);
    story_leave(0, 1, 100, 110, RELOCK_OK);
    story_is_clean();
}

static void a_loss_before_its_time_is_found(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 900);
    story_add(HISTORY_NEST, 0, 1, 30, 40)->result = RELOCK_LOST;
    story_leave(0, 1, 2000, 2010, RELOCK_LOST);
    story_shows(CHECK_LOST_EARLY, 1);
}

static void a_loss_at_its_time_is_clean(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 900);
    story_leave(0, 1, 915, 925, RELOCK_LOST);
    story_is_clean();
}

static void a_hold_that_is_not_released_is_found(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 900);
    story_add(HISTORY_IDLE, 0, 0, 2000, 2000);
    story_shows(CHECK_NEVER_RELEASED, 1);
}

static void a_call_that_does_not_return_is_found(void **state)
{
    (void)state;
    story_add(HISTORY_ASK, 0, 1, 0, 0)->value = RELOCK_FOREVER;
    story_shows(CHECK_NEVER_RELEASED, 1);
}

static void a_key_that_stays_at_the_end_is_found(void **state)
{
    (void)state;
    one_hold();
    story_add(HISTORY_IDLE, 0, 0, 2000, 2000)->value = 1;
    story_add(HISTORY_STAYS, -1, 0, 9000, 9000);
    story_shows(CHECK_NEVER_RELEASED, 2);
}

static void the_dead_need_not_release(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_claim(0, 1, 20, 900);
    story_add(HISTORY_ASK, 0, 2, 0, 0)->value = RELOCK_FOREVER;
    story_add(HISTORY_KILLED, 0, 0, 30, 30);
    story_is_clean();
}

static void impossible_results_are_found(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_add(HISTORY_NEST, 0, 1, 20, 30)->result = RELOCK_BUSY;
    story_leave(0, 1, 40, 50, RELOCK_NOT_OWNER);
    story_add(HISTORY_ASK, 0, 2, 60, 60);
    story_add(HISTORY_TAKE, 0, 2, 60, 70)->result = RELOCK_LOST;
    story_shows(CHECK_CANNOT_BE, 3);
}

static void calls_may_fail(void **state)
{
    (void)state;
    story_take(0, 1, 0, 10);
    story_add(HISTORY_NEST, 0, 1, 20, 30)->result = RELOCK_E_CONN;
    story_leave(0, 1, 40, 50, RELOCK_E_CONN);
    story_add(HISTORY_ASK, 0, 2, 60, 60);
    story_add(HISTORY_TAKE, 0, 2, 60, 70)->result = RELOCK_E_SERVER;
    story_is_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY_TEST(holds_in_turn_are_clean),
        STORY_TEST(two_claims_at_once_are_found),
        STORY_TEST(a_claim_between_two_of_another_is_found),
        STORY_TEST(a_promise_that_another_breaks_is_found),
        STORY_TEST(a_promise_outlives_its_process),
        STORY_TEST(an_old_hold_that_reaches_far_is_compared_with_all),
        STORY_TEST(a_promise_ends_with_the_release),
        STORY_TEST(a_promise_that_has_run_out_binds_nobody),
        STORY_TEST(locks_do_not_exclude_each_other),
        STORY_TEST(ok_for_a_lock_that_another_took_is_found),
        STORY_TEST(ok_for_a_lock_that_a_waiter_was_certain_of_is_found),
        STORY_TEST(lost_for_a_lock_that_another_took_is_clean),
        STORY_TEST(an_earlier_grant_that_was_answered_late_is_clean),
        STORY_TEST(a_loss_before_its_time_is_found),
        STORY_TEST(a_loss_at_its_time_is_clean),
        STORY_TEST(a_hold_that_is_not_released_is_found),
        STORY_TEST(a_call_that_does_not_return_is_found),
        STORY_TEST(a_key_that_stays_at_the_end_is_found),
        STORY_TEST(the_dead_need_not_release),
        STORY_TEST(impossible_results_are_found),
        STORY_TEST(calls_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
