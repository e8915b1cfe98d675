/*
 * The checker on waiters that sleep though the lock is free.
 */
#include "schedule.h"
#include "story.h"

#include <relock.h>

#define TOO_LONG_MS (STORY_RECHECK_MS + 2 * STORY_ROUND_TRIP_MS + 1)

/* Waits from 0 to 10 s. The lock is free for `free_ms` from 1 s on. */
static void one_sleeper(uint64_t free_ms)
{
    story_add(HISTORY_ASK, 0, 1, 0, 0)->value = RELOCK_FOREVER;
    story_add(HISTORY_TAKE, 0, 1, 0, 10000)->result = RELOCK_CANCELLED;
    story_add(HISTORY_FREE, -1, 0, 1000, 1000 + free_ms);
}

static void a_waiter_that_sleeps_too_long_is_found(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS);
    story_shows(CHECK_SLEPT, 1);
}

static void a_waiter_may_sleep_until_its_retry(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS - 1);
    story_is_clean();
}

static void one_try_does_not_sleep(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS);
    story.at[0].value = 0;
    story_is_clean();
}

static void a_late_arrival_has_slept_less(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS);
    story.at[0].from_ns = story.at[0].to_ns = (uint64_t)1100 * STORY_NS_PER_MS;
    story_is_clean();
}

static void a_lock_that_another_got_was_not_free_all_the_time(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS);
    story_take(1, 1, 0, 1800);
    story_leave(1, 1, 1801, 1802, RELOCK_OK);
    story_is_clean();
}

static void a_waiter_sleeps_before_and_after_another_got_it(void **state)
{
    (void)state;
    one_sleeper(3 * TOO_LONG_MS);
    story_take(1, 1, 2000, 1000 + TOO_LONG_MS + 5);
    story_leave(1, 1, 3000, 3001, RELOCK_OK);
    story_shows(CHECK_SLEPT, 2);
}

static void a_fault_excuses_a_sleeper(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS);
    story_add(HISTORY_FAULT, 0, 0, 1500, 1600);
    story_is_clean();
    story.at[story.n - 1].slot = -1; /* the server */
    story_is_clean();
}

static void a_fault_elsewhere_excuses_nobody(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS);
    story_add(HISTORY_FAULT, 1, 0, 1500, 1600);
    story_shows(CHECK_SLEPT, 1);
}

/* It may be first in line, so that the release is announced to it alone. */
static void a_process_that_is_stopped_delays_others_for_a_moment(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS + STORY_STOPPED_MS - 1);
    story_shows(CHECK_SLEPT, 1);
    story_add(HISTORY_FAULT, 1, 0, 500, 1100)->value = FAULT_STOP;
    story_is_clean();
    story.at[story.n - 2].to_ns += STORY_NS_PER_MS;
    story_shows(CHECK_SLEPT, 1);
    story_add(HISTORY_FAULT, 2, 0, 1500, 5000)->value = FAULT_STOP;
    story_is_clean();
}

/* By the stage, and by the process itself, which noticed that it stood still. */
static void a_stop_that_two_recorded_delays_others_once(void **state)
{
    struct history_record *again;

    (void)state;
    one_sleeper(TOO_LONG_MS + STORY_STOPPED_MS);
    story_add(HISTORY_FAULT, 1, 0, 1500, 1700)->value = FAULT_STOP;
    again = story_add(HISTORY_FAULT, 1, 0, 1490, 1701);
    again->value = FAULT_STOP;
    story_shows(CHECK_SLEPT, 1);
    again->from_ns = (uint64_t)1750 * STORY_NS_PER_MS; /* it has stopped once more */
    again->to_ns = (uint64_t)1800 * STORY_NS_PER_MS;
    story_is_clean();
}

static void a_process_that_was_stopped_before_delays_nobody(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS);
    story_add(HISTORY_FAULT, 1, 0, 500, 999)->value = FAULT_STOP;
    story_shows(CHECK_SLEPT, 1);
}

static void a_process_that_is_killed_delays_nobody(void **state)
{
    (void)state;
    one_sleeper(TOO_LONG_MS);
    story_add(HISTORY_FAULT, 1, 0, 1500, 1600)->value = FAULT_KILL;
    story_shows(CHECK_SLEPT, 1);
}

static void a_sleeper_between_two_faults_is_found(void **state)
{
    (void)state;
    one_sleeper(9000);
    story_add(HISTORY_FAULT, 0, 0, 1500, 1600);
    story_add(HISTORY_FAULT, 0, 0, 1600 + STORY_RECOVERY_MS + TOO_LONG_MS, 9000);
    story_shows(CHECK_SLEPT, 1);
    story.at[story.n - 1].from_ns -= STORY_NS_PER_MS;
    story_is_clean();
}

static void a_sleeper_long_after_the_repair_is_found(void **state)
{
    (void)state;
    one_sleeper(5000);
    story_add(HISTORY_FAULT, 0, 0, 900, 1100);
    story_shows(CHECK_SLEPT, 1);
    story.at[story.n - 1].to_ns +=
        (uint64_t)2000 * STORY_NS_PER_MS; /* with effects for nearly all of it */
    story_is_clean();
}

static void the_dead_do_not_sleep(void **state)
{
    (void)state;
    story_add(HISTORY_ASK, 0, 1, 0, 0)->value = RELOCK_FOREVER;
    story_add(HISTORY_FREE, -1, 0, 1000, 1000 + TOO_LONG_MS);
    story_add(HISTORY_KILLED, 0, 0, 1500, 1500);
    story_is_clean();
}

/* ---- kinds --------------------------------------------------------------------------------- */

static void asks_again_soon(enum history_sort sort)
{
    story_sort = sort;
    one_sleeper(STORY_SPIN_PAUSE_MS + 2 * STORY_ROUND_TRIP_MS);
    story_is_clean();
    story.at[story.n - 1].to_ns += STORY_NS_PER_MS;
    story_shows(CHECK_SLEPT, 1);
}

static void a_spinning_waiter_must_retry_soon(void **state)
{
    (void)state;
    asks_again_soon(HISTORY_SPIN);
}

static void a_waiter_for_a_plain_lock_must_retry_as_soon(void **state)
{
    (void)state;
    asks_again_soon(HISTORY_PLAIN);
}

static void a_reader_that_sleeps_though_nobody_writes_is_found(void **state)
{
    (void)state;
    story_sort = HISTORY_READ;
    one_sleeper(TOO_LONG_MS);
    story_take(1, 1, 0, 1800); /* another reader, which does not block this one */
    story_leave(1, 1, 1801, 1802, RELOCK_OK);
    story_shows(CHECK_SLEPT, 1);
    for (size_t i = 3; i < story.n; i++)
        story.at[i].sort = HISTORY_WRITE;
    story_is_clean();
}

static void a_writer_waits_for_readers(void **state)
{
    (void)state;
    story_sort = HISTORY_READ;
    one_sleeper(TOO_LONG_MS);
    story.at[0].sort = story.at[1].sort = HISTORY_WRITE;
    story_is_clean();
}

static void a_writer_that_sleeps_though_nobody_is_there_is_found(void **state)
{
    (void)state;
    story_sort = HISTORY_WRITE;
    one_sleeper(TOO_LONG_MS);
    story_shows(CHECK_SLEPT, 1);
    story_sort = HISTORY_READ;
    story_take(1, 1, 0, 1800);
    story_leave(1, 1, 1801, 1802, RELOCK_OK);
    story_is_clean();
}

static void in_a_fair_queue_one_is_patient_with_the_first(void **state)
{
    (void)state;
    story_sort = HISTORY_FAIR;
    one_sleeper(TOO_LONG_MS);
    story_shows(CHECK_SLEPT, 1);
    story.at[story.n - 1].value = HISTORY_KEPT;
    story_is_clean();
    story.at[story.n - 1].to_ns += (uint64_t)(STORY_PATIENCE_MS - 1) * STORY_NS_PER_MS;
    story_is_clean();
    story.at[story.n - 1].to_ns += STORY_NS_PER_MS;
    story_shows(CHECK_SLEPT, 1);
}

static void in_a_fair_queue_a_broken_waiter_is_waited_for(void **state)
{
    (void)state;
    story_sort = HISTORY_FAIR;
    one_sleeper(TOO_LONG_MS + STORY_PATIENCE_MS);
    story.at[story.n - 1].value = HISTORY_KEPT;
    story_add(HISTORY_FAULT, 1, 0, 1500, 1600);
    story_is_clean();
    story.at[story.n - 2].value = 0;
    story_shows(CHECK_SLEPT, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY_TEST(a_waiter_that_sleeps_too_long_is_found),
        STORY_TEST(a_waiter_may_sleep_until_its_retry),
        STORY_TEST(one_try_does_not_sleep),
        STORY_TEST(a_late_arrival_has_slept_less),
        STORY_TEST(a_lock_that_another_got_was_not_free_all_the_time),
        STORY_TEST(a_waiter_sleeps_before_and_after_another_got_it),
        STORY_TEST(a_fault_excuses_a_sleeper),
        STORY_TEST(a_fault_elsewhere_excuses_nobody),
        STORY_TEST(a_process_that_is_stopped_delays_others_for_a_moment),
        STORY_TEST(a_stop_that_two_recorded_delays_others_once),
        STORY_TEST(a_process_that_was_stopped_before_delays_nobody),
        STORY_TEST(a_process_that_is_killed_delays_nobody),
        STORY_TEST(a_sleeper_between_two_faults_is_found),
        STORY_TEST(a_sleeper_long_after_the_repair_is_found),
        STORY_TEST(the_dead_do_not_sleep),
        STORY_TEST(a_spinning_waiter_must_retry_soon),
        STORY_TEST(a_waiter_for_a_plain_lock_must_retry_as_soon),
        STORY_TEST(a_reader_that_sleeps_though_nobody_writes_is_found),
        STORY_TEST(a_writer_waits_for_readers),
        STORY_TEST(in_a_fair_queue_one_is_patient_with_the_first),
        STORY_TEST(in_a_fair_queue_a_broken_waiter_is_waited_for),
        STORY_TEST(a_writer_that_sleeps_though_nobody_is_there_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
