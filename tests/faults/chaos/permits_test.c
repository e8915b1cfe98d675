/* The checker on semaphores: three permits, of which no more may be out. */
#include "names.h"
#include "story.h"

#include <relock.h>

/* So many permits, certain from the grant until the release. */
static void hold(unsigned permits, int slot, unsigned number, uint64_t from_ms, uint64_t to_ms)
{
    size_t first = story.n;

    story_sort = HISTORY_SEMAPHORE;
    story_take(slot, number, from_ms, from_ms + 1);
    story_claim(slot, number, from_ms + 2, 100000);
    story_leave(slot, number, to_ms, to_ms + 1, RELOCK_OK);
    for (size_t i = first; i < story.n; i++)
        story.at[i].permits = permits;
}

/* The last one released late, because its process was stopped for long. */
static void left_lost(void)
{
    story.at[story.n - 1].result = RELOCK_LOST;
    story.at[story.n - 1].from_ns += (uint64_t)200000 * STORY_NS_PER_MS;
    story.at[story.n - 1].to_ns += (uint64_t)200000 * STORY_NS_PER_MS;
}

static void all_permits_may_be_out(void **state)
{
    (void)state;
    hold(1, 0, 1, 0, 100);
    hold(2, 1, 1, 10, 90);
    hold(2, 1, 2, 95, 99);
    hold(3, 2, 1, 100, 200);
    story_is_clean();
}

static void one_more_than_there_are_is_found(void **state)
{
    (void)state;
    hold(1, 0, 1, 0, 100);
    hold(2, 1, 1, 10, 90);
    hold(1, 2, 1, 50, 60);
    story_shows(CHECK_TOO_MANY, 1);
}

static void a_claim_of_an_earlier_hold_counts_until_its_end(void **state)
{
    (void)state;
    hold(3, 0, 1, 0, 100);
    story.at[2].value = 48;
    left_lost();
    hold(1, 1, 1, 50, 60);
    story_is_clean();
    story.at[2].value = 60;
    story_shows(CHECK_TOO_MANY, 1);
}

static void a_release_that_was_told_of_no_loss_counts_though_it_was_not_certain(void **state)
{
    (void)state;
    hold(3, 0, 1, 0, 100);
    story.at[2].value = 10;
    hold(1, 1, 1, 50, 60);
    story_shows(CHECK_TOO_MANY, 1);
}

static void other_locks_and_levels_do_not_count(void **state)
{
    (void)state;
    hold(3, 0, 1, 0, 100);
    hold(3, 1, 1, 50, 60);
    for (size_t i = 5; i < story.n; i++)
        story.at[i].lock = 1;
    story_is_clean();
}

static void a_failover_may_lose_permits(void **state)
{
    (void)state;
    hold(3, 0, 1, 60, 400);
    left_lost();
    hold(1, 1, 1, 300, 350);
    story_add(HISTORY_FAILOVER, -1, 0, 50, 200);
    assert_int_equal(story_report().n_violations[CHECK_TOO_MANY], 0);
    assert_int_equal(story_report().n_doubles_after_loss, 1);
    story.at[story.n - 1].from_ns = story.at[story.n - 1].to_ns;
    assert_int_equal(story_report().n_violations[CHECK_TOO_MANY], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY_TEST(all_permits_may_be_out),
        STORY_TEST(one_more_than_there_are_is_found),
        STORY_TEST(a_claim_of_an_earlier_hold_counts_until_its_end),
        STORY_TEST(a_release_that_was_told_of_no_loss_counts_though_it_was_not_certain),
        STORY_TEST(other_locks_and_levels_do_not_count),
        STORY_TEST(a_failover_may_lose_permits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
