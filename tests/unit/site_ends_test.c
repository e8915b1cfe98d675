/* How the waits in the queue of a name end. */
#include "queue.h"

#include "base/clock.h"

#define NAMED_OWNER 1000000007 /* an owner that is no thread */

/* ---- with the lock -------------------------------------------------------------------------- */

static void the_one_who_enters_leaves_the_queue(void **state)
{
    (void)state;

    site.lease_end_ms = 500;
    join_all();
    ask(0);
    relock_site_enter(&site, &waiters[0], &hold);
    assert_ptr_equal(site.holder, &hold);
    assert_ptr_equal(site.queue, &waiters[1]);
    assert_false(may_ask(1));
    nobody_is_woken();
    assert_true(site.lease_end_ms == RELOCK_NEVER); /* that was of the one who held before */
    for (int i = 0; i < N_WAITERS; i++)
        assert_int_equal(waiters[i].end, RELOCK_WAITER_WAITS);
}

static void a_hold_may_go_to_one_who_is_not_the_head(void **state)
{
    (void)state;

    join_all();
    relock_site_enter(&site, &waiters[2], &hold);
    assert_ptr_equal(site.queue, &waiters[0]);
    assert_ptr_equal(site.queue->next, &waiters[1]);
    assert_ptr_equal(site.queue->next->next, &waiters[3]);
    assert_false(may_ask(0));
}

static void who_entered_before_the_last_owner_was_back_stays(void **state)
{
    struct relock_hold next = {.state = RELOCK_HOLD_HELD};

    (void)state;
    join_all();
    relock_site_enter(&site, &waiters[0], &hold);
    hold.state = RELOCK_HOLD_LEAVING;
    relock_site_enter(&site, &waiters[1], &next);
    relock_site_vacate(&site, true, 0);
    assert_ptr_equal(site.holder, &next);
    next.state = RELOCK_HOLD_LEAVING;
    relock_site_vacate(&site, true, 0);
    assert_null(site.holder);
}

/* ---- one owner, several waiters ------------------------------------------------------------- */

static void others_that_wait_for_the_same_owner_start_anew(void **state)
{
    (void)state;

    for (int i = 0; i < 3; i += 2) {
        waiters[i].owner = NAMED_OWNER;
        waiters[i].named = true;
    }
    join_all();
    relock_site_enter(&site, &waiters[0], &hold);
    assert_int_equal(waiters[2].end, RELOCK_WAITER_STARTS_ANEW);
    assert_true(is_woken(2));
    assert_int_equal(waiters[1].end, RELOCK_WAITER_WAITS);
    assert_int_equal(waiters[3].end, RELOCK_WAITER_WAITS);
    assert_int_equal(waiters[0].end, RELOCK_WAITER_WAITS); /* it has the lock itself */
}

static void a_thread_and_who_acts_for_it_are_the_same_owner(void **state)
{
    (void)state;

    for (int thread = 0; thread < 2; thread++) {
        int proxy = 1 - thread;

        queue_end(NULL);
        queue_begin(NULL);
        waiters[proxy].owner = waiters[thread].owner;
        waiters[proxy].named = true;
        join_all();
        relock_site_enter(&site, &waiters[0], &hold);
        assert_int_equal(waiters[1].end, RELOCK_WAITER_STARTS_ANEW);
        assert_true(is_woken(1));
        assert_int_equal(waiters[2].end, RELOCK_WAITER_WAITS);
    }
}

static void named_waiters_are_counted_while_they_queue(void **state)
{
    (void)state;

    waiters[1].named = waiters[2].named = true;
    join_all();
    assert_int_equal(site.n_named, 2);
    relock_site_leave(&site, &waiters[0]);
    assert_int_equal(site.n_named, 2);
    relock_site_leave(&site, &waiters[2]);
    assert_int_equal(site.n_named, 1);
    relock_site_enter(&site, &waiters[1], &hold);
    assert_int_equal(site.n_named, 0);
}

/* ---- time, and changes for all -------------------------------------------------------------- */

static void a_head_without_news_asks_after_a_while_or_when_the_lease_ends(void **state)
{
    (void)state;

    site.asked_ms = 1000;
    assert_int_equal(relock_site_recheck_at(&site, 5000), 6000);
    site.lease_end_ms = 6001;
    assert_int_equal(relock_site_recheck_at(&site, 5000), 6000);
    site.lease_end_ms = 5999;
    assert_int_equal(relock_site_recheck_at(&site, 5000), 5999);
    assert_int_equal(relock_site_recheck_at(&site, RELOCK_NEVER), 5999);
    site.lease_end_ms = RELOCK_NEVER;
    assert_true(relock_site_recheck_at(&site, RELOCK_NEVER) == RELOCK_NEVER);
}

/* Else it would be awake, and may not ask. */
static void a_head_that_lets_others_go_first_does_not_look_before(void **state)
{
    (void)state;

    site.asked_ms = 1000;
    site.yields_until_ms = 1002;
    assert_int_equal(relock_site_recheck_at(&site, 1), 1002);
    assert_int_equal(relock_site_recheck_at(&site, 5), 1005);
    site.lease_end_ms = 1001;
    assert_int_equal(relock_site_recheck_at(&site, 5), 1002);
}

static void the_while_begins_when_the_last_local_owner_left(void **state)
{
    (void)state;

    take();
    site.asked_ms = 1000;
    site.lease_end_ms = 1500;
    relock_site_vacate(&site, true, 3000);
    assert_int_equal(relock_site_recheck_at(&site, 5000), 8000);
}

static void waits_end_that_have_seen_redis_away_for_all_of_the_time(void **state)
{
    (void)state;

    join_all(); /* at 0, 100, 200, 300 */
    relock_site_end_unreached(&site, 100);
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
    relock_site_end_unreached(&site, 1000);
    assert_int_equal(waiters[0].end, RELOCK_WAITER_STARTS_ANEW);
    assert_int_equal(waiters[1].end, RELOCK_WAITER_UNREACHED);
}

static void rousing_wakes_everybody_in_the_queue(void **state)
{
    (void)state;

    join_all();
    relock_site_leave(&site, &waiters[3]);
    take();
    relock_site_rouse(&site);
    for (int i = 0; i < N_WAITERS; i++)
        assert_int_equal(is_woken(i), i < 3);
}

static void a_hold_is_found_by_its_owner(void **state)
{
    struct relock_hold holds[3] = {{.owner = 5}, {.owner = 6}, {.owner = 7}};

    (void)state;

    assert_null(relock_site_find(&site, 5));
    for (int i = 0; i < 3; i++)
        DL_APPEND(site.holds, &holds[i]);
    for (uint64_t i = 0; i < 3; i++)
        assert_ptr_equal(relock_site_find(&site, 5 + i), &holds[i]);
    assert_null(relock_site_find(&site, 8));
    assert_null(relock_site_find(&site, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SITE_TEST(the_one_who_enters_leaves_the_queue),
        SITE_TEST(a_hold_may_go_to_one_who_is_not_the_head),
        SITE_TEST(who_entered_before_the_last_owner_was_back_stays),
        SITE_TEST(others_that_wait_for_the_same_owner_start_anew),
        SITE_TEST(a_thread_and_who_acts_for_it_are_the_same_owner),
        SITE_TEST(named_waiters_are_counted_while_they_queue),
        SITE_TEST(a_head_without_news_asks_after_a_while_or_when_the_lease_ends),
        SITE_TEST(a_head_that_lets_others_go_first_does_not_look_before),
        SITE_TEST(the_while_begins_when_the_last_local_owner_left),
        SITE_TEST(waits_end_that_have_seen_redis_away_for_all_of_the_time),
        SITE_TEST(a_wait_that_has_ended_stays_as_it_ended),
        SITE_TEST(rousing_wakes_everybody_in_the_queue),
        SITE_TEST(a_hold_is_found_by_its_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
