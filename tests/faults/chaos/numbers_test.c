/* The checker on numbers: each command has run once, or not at all, as its result says. */
#include "story.h"

#include <relock.h>

static void command(int number, int64_t value, int result)
{
    story_sort = HISTORY_UNLEASED;
    for (int i = 0; i < 2; i++) {
        struct history_record *r =
            story_add(i == 0 ? HISTORY_COUNT : HISTORY_COUNTED, 0, 0, story.n, story.n);

        r->lock = number;
        r->value = value;
        r->result = i == 0 ? 0 : result;
    }
}

static void at_the_end(int number, int64_t value)
{
    struct history_record *r = story_add(HISTORY_NUMBER, 0, 0, story.n, story.n);

    r->lock = number;
    r->value = value;
}

static void a_number_is_what_its_commands_have_made_it(void **state)
{
    (void)state;
    command(1, 5, RELOCK_OK);
    command(1, -9, RELOCK_BUSY);
    command(1, -2, RELOCK_OK);
    command(1, 7, RELOCK_E_SERVER);
    at_the_end(1, 3);
    command(2, 5, RELOCK_OK);
    at_the_end(2, 5);
    story_is_clean();
    assert_int_equal(story_report().n_numbers, 2);
}

static void a_command_that_ran_twice_is_found(void **state)
{
    (void)state;
    command(1, 5, RELOCK_OK);
    command(1, 1, RELOCK_OK);
    at_the_end(1, 7);
    story_shows(CHECK_MISCOUNTED, 1);
}

static void a_command_that_was_refused_and_ran_is_found(void **state)
{
    (void)state;
    command(1, 5, RELOCK_OK);
    command(1, -1, RELOCK_TIMEOUT);
    at_the_end(1, 4);
    story_shows(CHECK_MISCOUNTED, 1);
}

static void an_unanswered_command_may_have_run_or_not(void **state)
{
    (void)state;
    command(1, 5, RELOCK_OK);
    command(1, 2, RELOCK_E_CONN);
    at_the_end(1, 7);
    story_is_clean();
    story.at[story.n - 1].value = 5;
    story_is_clean();
    story.at[story.n - 1].value = 9;
    story_shows(CHECK_MISCOUNTED, 1);
}

static void the_last_command_of_a_dead_process_may_have_run_or_not(void **state)
{
    (void)state;
    command(1, 5, RELOCK_OK);
    command(1, 2, RELOCK_OK);
    story.n--;
    at_the_end(1, 7);
    story_is_clean();
    story.at[story.n - 1].value = 5;
    story_is_clean();
    story.at[story.n - 1].value = 9;
    story_shows(CHECK_MISCOUNTED, 1);
}

static void a_number_without_a_key_is_zero(void **state)
{
    (void)state;
    command(1, 5, RELOCK_OK);
    command(1, -5, RELOCK_OK);
    story_is_clean();
    command(1, 5, RELOCK_OK);
    story_shows(CHECK_MISCOUNTED, 1);
}

static void a_result_for_locks_cannot_be(void **state)
{
    (void)state;
    command(1, 0, RELOCK_LOST);
    story_shows(CHECK_CANNOT_BE, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY_TEST(a_number_is_what_its_commands_have_made_it),
        STORY_TEST(a_command_that_ran_twice_is_found),
        STORY_TEST(a_command_that_was_refused_and_ran_is_found),
        STORY_TEST(an_unanswered_command_may_have_run_or_not),
        STORY_TEST(the_last_command_of_a_dead_process_may_have_run_or_not),
        STORY_TEST(a_number_without_a_key_is_zero),
        STORY_TEST(a_result_for_locks_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
