/*
 * The checker on failovers: two holders at once, of whom the first was granted by a master that was
 * replaced.
 */
#include "story.h"

#include <relock.h>

/* The first hold is granted at 100 ms, and seems certain until its owner learns of its loss at 500
 * ms. The second one is granted at 300 ms. */
static void two_holds(unsigned n_acknowledged)
{
    story_take(0, 1, 99, 100);
    story.at[story.n - 1].value = n_acknowledged;
    story_claim(0, 1, 101, 10000);
    story_leave(0, 1, 500, 501, RELOCK_LOST);
    story_take(1, 1, 299, 300);
    story_claim(1, 1, 301, 10000);
    story_leave(1, 1, 400, 401, RELOCK_OK);
}

static void failover(uint64_t from_ms, uint64_t to_ms, bool had_acknowledged)
{
    story_add(HISTORY_FAILOVER, -1, 0, from_ms, to_ms)->value = had_acknowledged;
}

static void shows_lost_hold(void)
{
    struct check_report report = story_report();

    assert_int_equal(check_n_violations(&report), 0);
    assert_int_equal(report.n_doubles_after_loss, 1);
}

static void shows_two_holders(void)
{
    struct check_report report = story_report();

    assert_int_equal(report.n_violations[CHECK_TWO_HOLDERS], 1);
    assert_int_equal(report.n_violations[CHECK_LOST_EARLY], 1);
    assert_int_equal(report.n_doubles_after_loss, 0);
}

static void a_hold_may_be_lost_that_the_promoted_replica_had_not_acknowledged(void **state)
{
    (void)state;
    two_holds(1);
    failover(50, 200, false);
    shows_lost_hold();
}

static void a_hold_may_be_lost_that_no_replica_had_acknowledged(void **state)
{
    (void)state;
    two_holds(0);
    failover(50, 200, true);
    shows_lost_hold();
}

static void a_hold_must_not_be_lost_that_the_promoted_replica_had_acknowledged(void **state)
{
    (void)state;
    two_holds(1);
    failover(50, 200, true);
    shows_two_holders();
}

static void a_hold_must_not_be_lost_that_was_there_before_the_replica_was_stalled(void **state)
{
    (void)state;
    two_holds(1);
    failover(150, 200, false);
    shows_two_holders();
}

static void a_hold_of_the_new_master_must_not_be_lost(void **state)
{
    (void)state;
    two_holds(1);
    failover(10, 50, false);
    shows_two_holders();
}

static void a_failover_after_both_holds_excuses_nothing(void **state)
{
    (void)state;
    two_holds(1);
    failover(600, 700, false);
    shows_two_holders();
}

/* Its process stood still when the grant came. */
static void a_hold_may_be_lost_before_its_owner_learns_of_the_grant(void **state)
{
    (void)state;
    story_take(0, 1, 210, 220);
    story_claim(0, 1, 221, 10000);
    story_leave(0, 1, 400, 401, RELOCK_OK);
    story_take(1, 1, 60, 300);
    story_claim(1, 1, 301, 10000);
    story_leave(1, 1, 500, 501, RELOCK_LOST);
    failover(50, 200, true);
    shows_lost_hold();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY_TEST(a_hold_may_be_lost_that_the_promoted_replica_had_not_acknowledged),
        STORY_TEST(a_hold_may_be_lost_that_no_replica_had_acknowledged),
        STORY_TEST(a_hold_must_not_be_lost_that_the_promoted_replica_had_acknowledged),
        STORY_TEST(a_hold_must_not_be_lost_that_was_there_before_the_replica_was_stalled),
        STORY_TEST(a_hold_of_the_new_master_must_not_be_lost),
        STORY_TEST(a_failover_after_both_holds_excuses_nothing),
        STORY_TEST(a_hold_may_be_lost_before_its_owner_learns_of_the_grant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
