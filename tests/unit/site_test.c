/* Who of the queue of a name may ask Redis, and when. */
#include "queue.h"

/* ---- the queue ------------------------------------------------------------------------------ */

static void the_first_to_join_may_ask(void **state)
{
    (void)state;

    relock_site_join(&site, &waiters[0]);
    assert_true(is_woken(0));
    assert_true(may_ask(0));
}

static void only_the_head_may_ask(void **state)
{
    (void)state;

    for (int i = 0; i < N_WAITERS; i++)
        relock_site_join(&site, &waiters[i]);
    assert_true(is_woken(0));
    nobody_is_woken();
    assert_true(may_ask(0));
    for (int i = 1; i < N_WAITERS; i++)
        assert_false(may_ask(i));
}

static void who_joins_behind_the_head_is_no_news(void **state)
{
    (void)state;

    relock_site_join(&site, &waiters[0]);
    ask(0);
    (void)is_woken(0);
    relock_site_join(&site, &waiters[1]);
    nobody_is_woken();
    assert_false(may_ask(0));
}

static void the_head_asks_once_for_each_news(void **state)
{
    (void)state;

    relock_site_join(&site, &waiters[0]);
    ask(0);
    assert_false(may_ask(0));
    relock_site_add_news(&site, true);
    relock_site_add_news(&site, true);
    ask(0);
    assert_false(may_ask(0));
}

static void news_wakes_the_head_alone(void **state)
{
    (void)state;

    join_all();
    ask(0);
    relock_site_add_news(&site, true);
    assert_true(is_woken(0));
    nobody_is_woken();
}

static void news_is_a_message_when_one_came_since_it_was_used(void **state)
{
    (void)state;

    relock_site_add_news(&site, false);
    assert_true(site.news);
    assert_false(site.news_is_message);
    relock_site_add_news(&site, true);
    assert_true(site.news_is_message);
    relock_site_add_news(&site, false);
    assert_true(site.news);
    assert_true(site.news_is_message);

    site.news = false; /* used */
    relock_site_add_news(&site, false);
    assert_false(site.news_is_message);
}

static void news_without_a_waiter_is_kept_for_who_comes(void **state)
{
    (void)state;

    take();
    relock_site_add_news(&site, true);
    relock_site_join(&site, &waiters[0]);
    relock_site_vacate(&site, true, 0);
    assert_true(may_ask(0));
}

static void when_the_head_leaves_the_next_one_looks_around(void **state)
{
    (void)state;

    join_all();
    ask(0);
    relock_site_leave(&site, &waiters[0]);
    assert_true(is_woken(1));
    nobody_is_woken();
    assert_false(may_ask(1)); /* the last one who asked was refused, and nothing has changed */
    relock_site_add_news(&site, true);
    assert_true(is_woken(1));
    assert_true(may_ask(1));
}

static void news_outlives_the_head_that_leaves_without_using_it(void **state)
{
    (void)state;

    join_all();
    relock_site_leave(&site, &waiters[0]);
    assert_true(is_woken(1));
    assert_true(may_ask(1));
    assert_false(may_ask(0));
}

static void who_leaves_behind_the_head_wakes_nobody(void **state)
{
    (void)state;

    join_all();
    relock_site_leave(&site, &waiters[2]);
    relock_site_leave(&site, &waiters[3]);
    nobody_is_woken();
    assert_ptr_equal(site.queue, &waiters[0]);
    assert_ptr_equal(site.queue->next, &waiters[1]);
    assert_null(site.queue->next->next);
}

static void the_queue_is_first_come_first_served(void **state)
{
    (void)state;

    join_all();
    for (int i = 0; i < N_WAITERS; i++) {
        assert_ptr_equal(site.queue, &waiters[i]);
        assert_true(may_ask(i));
        relock_site_leave(&site, &waiters[i]);
    }
    assert_null(site.queue);
}

/* ---- a local owner -------------------------------------------------------------------------- */

static void while_a_local_owner_holds_nobody_may_ask(void **state)
{
    (void)state;

    take();
    relock_site_join(&site, &waiters[0]);
    nobody_is_woken();
    assert_false(may_ask(0));
    assert_false(site.news);
}

/* Redis may still have it: asking would get a second hold beside it, or the same twice. */
static void while_a_local_hold_is_suspect_nobody_may_ask(void **state)
{
    (void)state;

    take();
    join_all();
    relock_site_add_news(&site, false);
    hold.state = RELOCK_HOLD_SUSPECT;
    assert_false(may_ask(0));
    hold.state = RELOCK_HOLD_LEAVING;
    assert_false(may_ask(0));
}

static void news_while_owned_is_kept_and_wakes_nobody(void **state)
{
    (void)state;

    take();
    join_all();
    relock_site_add_news(&site, true);
    nobody_is_woken();
    assert_false(may_ask(0));

    relock_site_vacate(&site, true, 0);
    assert_true(is_woken(0));
    assert_true(may_ask(0));
}

static void an_owner_that_leaves_unannounced_is_news(void **state)
{
    (void)state;

    take();
    join_all();
    relock_site_vacate(&site, false, 0);
    assert_null(site.holder);
    assert_true(is_woken(0));
    assert_true(may_ask(0));
    nobody_is_woken();
}

static void after_an_announced_release_the_head_waits_for_the_message(void **state)
{
    (void)state;

    take();
    join_all();
    relock_site_vacate(&site, true, 0);
    assert_true(is_woken(0)); /* it has a recheck to wait for from now on */
    assert_false(may_ask(0));

    relock_site_add_news(&site, true);
    assert_true(is_woken(0));
    assert_true(may_ask(0));
}

static void who_moves_up_while_owned_sleeps_on(void **state)
{
    (void)state;

    take();
    join_all();
    relock_site_leave(&site, &waiters[0]);
    nobody_is_woken();
    assert_false(may_ask(1));
    relock_site_vacate(&site, false, 0);
    assert_true(is_woken(1));
    assert_true(may_ask(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SITE_TEST(the_first_to_join_may_ask),
        SITE_TEST(only_the_head_may_ask),
        SITE_TEST(who_joins_behind_the_head_is_no_news),
        SITE_TEST(the_head_asks_once_for_each_news),
        SITE_TEST(news_wakes_the_head_alone),
        SITE_TEST(news_is_a_message_when_one_came_since_it_was_used),
        SITE_TEST(news_without_a_waiter_is_kept_for_who_comes),
        SITE_TEST(when_the_head_leaves_the_next_one_looks_around),
        SITE_TEST(news_outlives_the_head_that_leaves_without_using_it),
        SITE_TEST(who_leaves_behind_the_head_wakes_nobody),
        SITE_TEST(the_queue_is_first_come_first_served),
        SITE_TEST(while_a_local_owner_holds_nobody_may_ask),
        SITE_TEST(while_a_local_hold_is_suspect_nobody_may_ask),
        SITE_TEST(news_while_owned_is_kept_and_wakes_nobody),
        SITE_TEST(an_owner_that_leaves_unannounced_is_news),
        SITE_TEST(after_an_announced_release_the_head_waits_for_the_message),
        SITE_TEST(who_moves_up_while_owned_sleeps_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
