/* When all clients of the library leave a plain lock to other libraries, and how each knows. */
#include "lock/wake/wake.h"
#include "unit/common/offline.h"

#define PERIOD_MS 768
#define LONGEST_MS 1243
#define SEEN_MS 10000
#define ENOUGH_MS 256
#define RESERVED_MS 100                 /* for the client whose turn it is */
#define DATE_MS UINT64_C(1795912345678) /* in November 2026 */

static int begin(void **state)
{
    (void)state;
    offline_begin();
    return relock_resource_contend(resource) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return offline_end();
}

/* ---- windows ------------------------------------------------------------------------------- */

/* The first moment of the next window that begins after this one. */
static uint64_t next_begin(uint64_t server_ms)
{
    while (relock_room_is_at(server_ms))
        server_ms++;
    while (!relock_room_is_at(server_ms))
        server_ms++;
    return server_ms;
}

static void each_window_is_as_long_as_a_room(void **state)
{
    uint64_t at_ms = DATE_MS;

    (void)state;
    for (int i = 0; i < 200; i++) {
        at_ms = next_begin(at_ms);
        for (uint64_t ms = 0; ms < RELOCK_ROOM_MS; ms++)
            assert_true(relock_room_is_at(at_ms + ms));
        assert_false(relock_room_is_at(at_ms + RELOCK_ROOM_MS));
    }
}

static void no_two_long_waits_for_a_window_follow_each_other(void **state)
{
    uint64_t before_ms = next_begin(DATE_MS), at_ms = next_begin(before_ms);
    uint64_t first_ms = before_ms;

    (void)state;
    for (int i = 0; i < 500; i++) {
        uint64_t next_ms = next_begin(at_ms);

        assert_true(next_ms - at_ms <= LONGEST_MS);
        assert_true(next_ms - before_ms < LONGEST_MS + PERIOD_MS);
        before_ms = at_ms;
        at_ms = next_ms;
    }
    assert_in_range(at_ms - first_ms, 500 * PERIOD_MS, 502 * PERIOD_MS);
}

/* Else a holder whose releases always come at the same moment of it could avoid them. */
static void windows_begin_at_all_moments_of_the_period(void **state)
{
    enum { STEPS = PERIOD_MS };
    unsigned n[STEPS] = {0};
    uint64_t at_ms = DATE_MS;

    (void)state;
    for (int i = 0; i < STEPS; i++) {
        at_ms = next_begin(at_ms);
        n[at_ms % PERIOD_MS]++;
    }
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(n[i], 1);
}

/* A server may say anything. */
static void any_time_of_the_server_is_a_time(void **state)
{
    (void)state;
    assert_true(relock_room_is_at(0));
    (void)relock_room_is_at(UINT64_MAX);
    relock_room_see(resource, UINT64_MAX, 1000, 1000);
    (void)relock_room_is_due(resource, 1001);
}

/* ---- neighbours ---------------------------------------------------------------------------- */

static void a_room_is_due_while_another_library_was_seen_lately(void **state)
{
    uint64_t window_ms = next_begin(DATE_MS), later_ms = next_begin(window_ms + SEEN_MS);

    (void)state;
    assert_false(relock_room_is_due(resource, 1000)); /* 0 on the clock of the server */
    relock_room_see(resource, window_ms, 1000, 1000);
    assert_true(relock_room_is_due(resource, 1000));
    assert_true(relock_room_is_due(resource, 1000 + RELOCK_ROOM_MS - 1));
    assert_false(relock_room_is_due(resource, 1000 + RELOCK_ROOM_MS));
    assert_false(relock_room_is_due(resource, 1000 + later_ms - window_ms));
    relock_room_see(resource, later_ms - 1, 1000 + later_ms - window_ms - 1,
                    1000 + later_ms - window_ms - 1);
    assert_true(relock_room_is_due(resource, 1000 + later_ms - window_ms));
}

/* Each client is as exact as its best answer. */
static void a_late_answer_does_not_move_the_windows(void **state)
{
    uint64_t window_ms = next_begin(DATE_MS);

    (void)state;
    relock_room_see(resource, window_ms + 20, 1000, 1040); /* at 1020, as far as is known */
    assert_true(relock_room_is_due(resource, 1000));
    relock_room_see(resource, window_ms + 50, 1048, 1052);
    assert_true(relock_room_is_due(resource, 1000));
    assert_false(relock_room_is_due(resource, 999));
    relock_room_see(resource, window_ms + 50, 1050, 1400);
    assert_true(relock_room_is_due(resource, 1000));
    assert_false(relock_room_is_due(resource, 999));
}

/* The clock of a server may be set, and another server may have the lock. */
static void an_old_reading_of_the_clock_is_replaced(void **state)
{
    uint64_t window_ms = next_begin(DATE_MS);

    (void)state;
    relock_room_see(resource, window_ms + RELOCK_ROOM_MS, 1000, 1000);
    relock_room_see(resource, window_ms + 50, 1000 + SEEN_MS, 1100 + SEEN_MS);
    assert_true(relock_room_is_due(resource, 1000 + SEEN_MS));
}

static void in_line_a_room_and_a_round_trip_fit_into_a_reservation(void **state)
{
    uint64_t window_ms = next_begin(DATE_MS);

    (void)state;
    relock_room_see(resource, window_ms + 20, 1000, 1040); /* the round trip: at most 40 ms */
    resource->taken_ms = 1041;
    resource->contention->line.place = 1;
    assert_true(relock_room_begin(&client, resource, 1050));
    assert_in_range(resource->contention->room.ends_ms, 1050 + 1, 1050 + RESERVED_MS - 40 - 1);
    resource->contention->line.place = 0;
}

/* A waiter that was to ask does so when the room has ended, though nothing is read in it. */
static void a_room_keeps_the_reason_to_ask(void **state)
{
    uint64_t window_ms = next_begin(DATE_MS);

    (void)state;
    relock_room_see(resource, window_ms, 1000, 1000);
    resource->taken_ms = 1001;
    relock_resource_signal(resource, false);
    assert_true(relock_room_begin(&client, resource, 1010));
    assert_int_equal(resource->retry, RELOCK_RETRY_PENDING);
}

static void nobody_rechecks_before_the_end_of_a_room(void **state)
{
    (void)state;
    resource->contention->asked_ms = 1000;
    assert_int_equal(relock_resource_recheck_at(resource, 2), 1002);
    resource->contention->room.ends_ms = 1000 + RELOCK_ROOM_MS;
    assert_int_equal(relock_resource_recheck_at(resource, 2), 1000 + RELOCK_ROOM_MS);
    relock_resource_yield_until(resource, 1002); /* a shorter reason does not end it */
    assert_int_equal(relock_resource_recheck_at(resource, 2), 1000 + RELOCK_ROOM_MS);
    assert_true(relock_room_is_on(resource, 1000 + RELOCK_ROOM_MS - 1));
    assert_false(relock_room_is_on(resource, 1000 + RELOCK_ROOM_MS));
}

/* The other library has the lock, as is read every 8 ms in so long a time. */
static void see_theirs(uint64_t server_ms, uint64_t from_ms, uint64_t for_ms)
{
    for (uint64_t ms = 0; ms <= for_ms; ms += 8)
        relock_room_see(resource, server_ms + ms, from_ms + ms, from_ms + ms);
}

static void a_window_after_many_holds_of_another_library_has_no_room(void **state)
{
    uint64_t first_ms = next_begin(DATE_MS), second_ms = next_begin(first_ms);
    uint64_t at_ms = ENOUGH_MS + 1000;

    (void)state;
    see_theirs(first_ms - ENOUGH_MS, 1000, ENOUGH_MS);
    resource->taken_ms = at_ms;
    assert_true(relock_room_is_due(resource, at_ms));
    assert_false(relock_room_begin(&client, resource, at_ms));
    assert_false(relock_room_is_on(resource, at_ms));
    assert_false(relock_room_begin(&client, resource, at_ms + RELOCK_ROOM_MS - 1));
    assert_true(relock_room_begin(&client, resource, at_ms + second_ms - first_ms));
}

/* What it had before the window before does not count, and what it had since then does. */
static void the_holds_since_the_window_before_count(void **state)
{
    uint64_t first_ms = next_begin(DATE_MS), second_ms = next_begin(first_ms);
    uint64_t third_ms = next_begin(second_ms), ahead_ms = first_ms - ENOUGH_MS - 1000;

    (void)state;
    see_theirs(first_ms - ENOUGH_MS, 1000, ENOUGH_MS);
    resource->taken_ms = first_ms - ahead_ms;
    assert_false(relock_room_begin(&client, resource, resource->taken_ms));
    see_theirs(second_ms - ENOUGH_MS, second_ms - ENOUGH_MS - ahead_ms, ENOUGH_MS);
    resource->taken_ms = second_ms - ahead_ms;
    assert_false(relock_room_begin(&client, resource, resource->taken_ms));
    see_theirs(third_ms - ENOUGH_MS, third_ms - ENOUGH_MS - ahead_ms, ENOUGH_MS - 8);
    resource->taken_ms = third_ms - ahead_ms;
    assert_true(relock_room_begin(&client, resource, resource->taken_ms));
}

static void a_window_after_few_holds_of_another_library_has_a_room(void **state)
{
    uint64_t window_ms = next_begin(DATE_MS), at_ms = ENOUGH_MS + 1000;

    (void)state;
    see_theirs(window_ms - ENOUGH_MS, 1000, ENOUGH_MS - 8);
    resource->taken_ms = at_ms;
    assert_true(relock_room_begin(&client, resource, at_ms));
}

static void holds_of_this_library_divide_those_of_another(void **state)
{
    uint64_t window_ms = next_begin(DATE_MS), at_ms = 3 * ENOUGH_MS + 1000;

    (void)state;
    see_theirs(window_ms - 3 * ENOUGH_MS, 1000, ENOUGH_MS);
    resource->taken_ms = 1000 + ENOUGH_MS; /* of this client */
    see_theirs(window_ms - 2 * ENOUGH_MS, 1000 + ENOUGH_MS, ENOUGH_MS - 8);
    relock_room_see_ours(resource); /* of another one */
    see_theirs(window_ms - ENOUGH_MS, 1000 + 2 * ENOUGH_MS, ENOUGH_MS - 8);
    resource->taken_ms = at_ms;
    assert_true(relock_room_begin(&client, resource, at_ms));
}

#define ROOM_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROOM_TEST(each_window_is_as_long_as_a_room),
        ROOM_TEST(no_two_long_waits_for_a_window_follow_each_other),
        ROOM_TEST(windows_begin_at_all_moments_of_the_period),
        ROOM_TEST(any_time_of_the_server_is_a_time),
        ROOM_TEST(a_room_is_due_while_another_library_was_seen_lately),
        ROOM_TEST(a_late_answer_does_not_move_the_windows),
        ROOM_TEST(an_old_reading_of_the_clock_is_replaced),
        ROOM_TEST(in_line_a_room_and_a_round_trip_fit_into_a_reservation),
        ROOM_TEST(a_room_keeps_the_reason_to_ask),
        ROOM_TEST(a_window_after_many_holds_of_another_library_has_no_room),
        ROOM_TEST(the_holds_since_the_window_before_count),
        ROOM_TEST(a_window_after_few_holds_of_another_library_has_a_room),
        ROOM_TEST(holds_of_this_library_divide_those_of_another),
        ROOM_TEST(nobody_rechecks_before_the_end_of_a_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
