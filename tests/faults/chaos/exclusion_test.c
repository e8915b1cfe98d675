/*
 * The checker on the two sides of a read/write lock: readers together, a writer alone.
 */
#include "story.h"

#include <relock.h>

/* A hold of this side, certain from its grant until its release. */
static void hold(enum history_sort side, int slot, unsigned number, uint64_t from_ms,
                 uint64_t to_ms)
{
    story_sort = side;
    story_take(slot, number, from_ms, from_ms + 1);
    story_claim(slot, number, from_ms + 2, 100000);
    story_leave(slot, number, to_ms, to_ms + 1, RELOCK_OK);
}

/* The last one released late: its process was stopped for long. */
static void left_lost(void)
{
    story.at[story.n - 1].result = RELOCK_LOST;
    story.at[story.n - 1].from_ns += (uint64_t)200000 * STORY_NS_PER_MS;
    story.at[story.n - 1].to_ns += (uint64_t)200000 * STORY_NS_PER_MS;
}

static void readers_are_together(void **state)
{
    (void)state;
    hold(HISTORY_READ, 0, 1, 0, 100);
    hold(HISTORY_READ, 1, 1, 10, 50);
    hold(HISTORY_READ, 2, 1, 20, 200);
    story_is_clean();
}

static void a_reader_beside_a_writer_is_found(void **state)
{
    (void)state;
    hold(HISTORY_WRITE, 0, 1, 0, 100);
    left_lost();
    hold(HISTORY_READ, 1, 1, 50, 60);
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void a_writer_beside_a_reader_is_found(void **state)
{
    (void)state;
    hold(HISTORY_READ, 0, 1, 0, 100);
    left_lost();
    hold(HISTORY_WRITE, 1, 1, 50, 60);
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void two_writers_are_found(void **state)
{
    (void)state;
    hold(HISTORY_WRITE, 0, 1, 0, 100);
    left_lost();
    hold(HISTORY_WRITE, 1, 1, 50, 60);
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void a_reader_is_not_forgotten_over_one_that_leaves_earlier(void **state)
{
    (void)state;
    hold(HISTORY_READ, 0, 1, 0, 100);
    left_lost();
    hold(HISTORY_READ, 1, 1, 10, 20);
    hold(HISTORY_WRITE, 2, 1, 50, 60);
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void a_writer_reads_beside_itself_and_goes_on_reading_with_others(void **state)
{
    (void)state;
    hold(HISTORY_WRITE, 0, 1, 0, 100);
    hold(HISTORY_READ, 0, 2, 10, 200);
    hold(HISTORY_READ, 1, 1, 110, 150);
    story_is_clean();
}

static void a_writer_is_not_forgotten_over_its_own_reading(void **state)
{
    (void)state;
    hold(HISTORY_WRITE, 0, 1, 0, 100);
    left_lost();
    hold(HISTORY_READ, 0, 2, 10, 200000);
    hold(HISTORY_READ, 1, 1, 50, 60);
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void another_thread_of_the_writer_must_not_read(void **state)
{
    (void)state;
    hold(HISTORY_WRITE, 0, 1, 0, 100);
    left_lost();
    hold(HISTORY_READ, 0, 2, 10, 20);
    for (size_t i = story.n - 5; i < story.n; i++)
        story.at[i].thread = 1;
    story_shows(CHECK_TWO_HOLDERS, 1);
}

static void ok_for_a_read_during_a_write_is_found(void **state)
{
    (void)state;
    story_sort = HISTORY_READ;
    story_take(0, 1, 0, 10);
    story_leave(0, 1, 100, 110, RELOCK_OK);
    story_sort = HISTORY_WRITE;
    story_take(1, 1, 20, 30);
    story_leave(1, 1, 40, 50, RELOCK_OK);
    story_shows(CHECK_OK_THOUGH_TAKEN, 1);
}

static void a_reader_that_gets_the_write_side_is_found(void **state)
{
    (void)state;
    story_sort = HISTORY_READ;
    story_take(0, 1, 0, 10);
    story_add(HISTORY_CLIMB, 0, 1, 20, 30)->result = RELOCK_E_DEADLOCK;
    story_add(HISTORY_CLIMB, 0, 1, 40, 50)->result = RELOCK_LOST;
    story_leave(0, 1, 100, 110, RELOCK_LOST);
    story_is_clean();
    story_add(HISTORY_CLIMB, 0, 1, 60, 70)->result = RELOCK_OK;
    story_shows(CHECK_CANNOT_BE, 1);
}

static void an_earlier_loss_is_clean_for_a_reader_alone(void **state)
{
    (void)state;
    story_sort = HISTORY_READ;
    story_add(HISTORY_ASK, 0, 1, 0, 0);
    story_add(HISTORY_TAKE, 0, 1, 0, 10)->result = RELOCK_LOST;
    story_is_clean();
    story.at[1].sort = HISTORY_WRITE;
    story_shows(CHECK_CANNOT_BE, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY_TEST(readers_are_together),
        STORY_TEST(a_reader_beside_a_writer_is_found),
        STORY_TEST(a_writer_beside_a_reader_is_found),
        STORY_TEST(two_writers_are_found),
        STORY_TEST(a_reader_is_not_forgotten_over_one_that_leaves_earlier),
        STORY_TEST(a_writer_reads_beside_itself_and_goes_on_reading_with_others),
        STORY_TEST(a_writer_is_not_forgotten_over_its_own_reading),
        STORY_TEST(another_thread_of_the_writer_must_not_read),
        STORY_TEST(ok_for_a_read_during_a_write_is_found),
        STORY_TEST(a_reader_that_gets_the_write_side_is_found),
        STORY_TEST(an_earlier_loss_is_clean_for_a_reader_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
