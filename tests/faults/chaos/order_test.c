/*
 * The checker on the order of a fair lock: waiters that are overtaken, and the faults that excuse
 * it.
 */
#include "story.h"

#include <relock.h>

#define CLEARLY_MS (STORY_ROUND_TRIP_MS + 1)

/* Waits from 0 until `at`, then holds the lock. */
static void waiter(uint64_t until_ms)
{
    story_sort = HISTORY_FAIR;
    story_take(0, 1, 0, until_ms);
    story_claim(0, 1, until_ms + 1, 100);
    story_leave(0, 1, until_ms + 10, until_ms + 11, RELOCK_OK);
}

/* Another process comes at `at`, and gets the lock before that waiter. */
static void overtaker(uint64_t from_ms, uint64_t to_ms)
{
    story_take(1, 1, from_ms, to_ms);
    story_leave(1, 1, to_ms + 10, to_ms + 11, RELOCK_OK);
}

/* That waiter timed out at `at`. */
static void waiter_that_gives_up(uint64_t at_ms)
{
    story_sort = HISTORY_FAIR;
    story_add(HISTORY_ASK, 0, 1, 0, 0)->value = RELOCK_FOREVER;
    story_add(HISTORY_TAKE, 0, 1, 0, at_ms)->result = RELOCK_CANCELLED;
}

static void arrivals_served_in_order_are_clean(void **state)
{
    (void)state;
    waiter(5000);
    overtaker(1000, 6000);
    story_is_clean();
}

static void a_clearly_later_arrival_that_goes_first_is_found(void **state)
{
    (void)state;
    waiter(5000);
    overtaker(CLEARLY_MS, 3000);
    story_shows(CHECK_OVERTAKEN, 1);
}

static void an_arrival_a_round_trip_later_may_be_first(void **state)
{
    (void)state;
    waiter(5000);
    overtaker(CLEARLY_MS - 1, 3000);
    story_is_clean();
}

static void other_kinds_have_no_order(void **state)
{
    (void)state;
    waiter(5000);
    overtaker(1000, 3000);
    for (size_t i = 0; i < story.n; i++)
        story.at[i].sort = HISTORY_REENTRANT;
    story_is_clean();
}

static void locks_have_queues_of_their_own(void **state)
{
    (void)state;
    waiter(5000);
    overtaker(1000, 3000);
    for (size_t i = 0; i < story.n; i++)
        story.at[i].lock = story.at[i].slot;
    story_is_clean();
}

static void one_try_has_no_place(void **state)
{
    (void)state;
    waiter(5000);
    overtaker(1000, 3000);
    story.at[0].value = 0;
    story_is_clean();
}

static void a_fault_may_cost_a_place(void **state)
{
    (void)state;
    waiter(5000);
    overtaker(1000, 3000);
    story_add(HISTORY_FAULT, 0, 0, 2900, 3100);
    story_is_clean();
    story.at[story.n - 1].slot = -1; /* the server */
    story_is_clean();
    story.at[story.n - 1].slot = 2; /* a third process */
    story_shows(CHECK_OVERTAKEN, 1);
}

static void a_fault_after_the_overtaking_costs_no_place(void **state)
{
    (void)state;
    waiter(5000);
    overtaker(1000, 3000);
    story_add(HISTORY_FAULT, 0, 0, 3001, 3100);
    story_shows(CHECK_OVERTAKEN, 1);
}

static void a_fault_of_long_ago_costs_no_place(void **state)
{
    (void)state;
    waiter(9000);
    overtaker(100 + STORY_RECOVERY_MS + CLEARLY_MS, 5000);
    story_add(HISTORY_FAULT, 0, 0, 50, 100);
    story_shows(CHECK_OVERTAKEN, 1);
    story.at[story.n - 1].to_ns += STORY_NS_PER_MS;
    story_is_clean();
}

static void a_waiter_that_times_out_then_is_not_overtaken(void **state)
{
    (void)state;
    waiter_that_gives_up(3000 + STORY_ROUND_TRIP_MS);
    overtaker(1000, 3000);
    story_is_clean();
    story.at[1].to_ns += STORY_NS_PER_MS;
    story_shows(CHECK_OVERTAKEN, 1);
}

static void a_waiter_that_dies_then_is_not_overtaken(void **state)
{
    (void)state;
    story_sort = HISTORY_FAIR;
    story_add(HISTORY_ASK, 0, 1, 0, 0)->value = RELOCK_FOREVER;
    story_add(HISTORY_KILLED, 0, 0, 3000, 3000);
    overtaker(1000, 2999);
    story_is_clean();
}

static void a_hold_that_was_never_certain_may_have_been_first(void **state)
{
    (void)state;
    waiter(3100);
    overtaker(1000, 3000);
    story_shows(CHECK_OVERTAKEN, 1);
    story.at[2].value = 0; /* its claim */
    story_is_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY_TEST(arrivals_served_in_order_are_clean),
        STORY_TEST(a_clearly_later_arrival_that_goes_first_is_found),
        STORY_TEST(an_arrival_a_round_trip_later_may_be_first),
        STORY_TEST(other_kinds_have_no_order),
        STORY_TEST(locks_have_queues_of_their_own),
        STORY_TEST(one_try_has_no_place),
        STORY_TEST(a_fault_may_cost_a_place),
        STORY_TEST(a_fault_after_the_overtaking_costs_no_place),
        STORY_TEST(a_fault_of_long_ago_costs_no_place),
        STORY_TEST(a_waiter_that_times_out_then_is_not_overtaken),
        STORY_TEST(a_waiter_that_dies_then_is_not_overtaken),
        STORY_TEST(a_hold_that_was_never_certain_may_have_been_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
