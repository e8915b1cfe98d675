/* The arithmetic of a hold: how long it is certain, and when its timer is due. */
#include "lock/state/hold.h"

#include "base/clock.h"
#include "lock/state/options.h"
#include "lock/state/resource.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define SENT_MS 1000000
#define SECOND UINT64_C(1000)

static const enum relock_hold_state not_held[] = {RELOCK_HOLD_ASKED, RELOCK_HOLD_LOST,
                                                  RELOCK_HOLD_RELEASING, RELOCK_HOLD_SETTLING,
                                                  RELOCK_HOLD_ENDED};
static const enum relock_hold_state held[] = {RELOCK_HOLD_HELD, RELOCK_HOLD_SUSPECT};

/* ---- leases -------------------------------------------------------------------------------- */

static void a_lease_is_certain_less_one_percent_and_two_ms(void **state)
{
    static const struct {
        uint64_t lease_ms, certain_ms;
    } cases[] = {
        {30 * SECOND, 29698},
        {10 * SECOND, 9898},
        {1000, 988},
        {999, 988},
        {100, 97},
        {99, 97},
        {10, 8},
        {3, 1},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(relock_hold_valid_until(SENT_MS, cases[i].lease_ms),
                         SENT_MS + cases[i].certain_ms);
}

static void a_lease_below_the_drift_is_never_certain(void **state)
{
    (void)state;

    for (uint64_t lease_ms = 0; lease_ms <= 2; lease_ms++)
        assert_int_equal(relock_hold_valid_until(SENT_MS, lease_ms), SENT_MS);
}

static void no_lease_is_certain_for_all_of_its_length(void **state)
{
    (void)state;

    for (uint64_t lease_ms = 1; lease_ms < RELOCK_TEN_YEARS_MS; lease_ms += 1 + lease_ms / 3) {
        uint64_t valid_until_ms = relock_hold_valid_until(SENT_MS, lease_ms);

        assert_true(valid_until_ms < SENT_MS + lease_ms);
        assert_true(valid_until_ms >= relock_hold_valid_until(SENT_MS, lease_ms - 1));
    }
}

static void a_huge_lease_does_not_wrap(void **state)
{
    (void)state;

    assert_true(relock_hold_valid_until(SENT_MS, RELOCK_TEN_YEARS_MS) ==
                SENT_MS + RELOCK_TEN_YEARS_MS / 100 * 99 - 2);
    assert_true(relock_hold_valid_until(RELOCK_NEVER - 10, 1000) == RELOCK_NEVER);
    assert_true(relock_hold_valid_until(0, RELOCK_NEVER) > RELOCK_NEVER / 100 * 98);
    assert_true(relock_hold_valid_until(RELOCK_NEVER / 2, RELOCK_NEVER) == RELOCK_NEVER);
}

static void a_lease_is_renewed_a_little_before_a_third_of_it_is_over(void **state)
{
    (void)state;

    assert_int_equal(relock_hold_renewal_ms(30 * SECOND), 9 * SECOND);
    assert_int_equal(relock_hold_renewal_ms(30), 9);
    assert_int_equal(relock_hold_renewal_ms(100), 30);
    assert_true(relock_hold_renewal_ms(RELOCK_TEN_YEARS_MS) == RELOCK_TEN_YEARS_MS / 10 * 3);
}

/* ---- meeting ------------------------------------------------------------------------------- */

static void a_renewal_comes_forward_by_a_tenth_at_most_and_never_back(void **state)
{
    static const uint64_t intervals[] = {9, 19, 20, 900, 9 * SECOND, 3600 * SECOND};
    static const unsigned n_holds[] = {0, 1, 2560, 2561, 100000, 1000000, 4000000};

    (void)state;

    for (size_t i = 0; i < COUNT(intervals); i++)
        for (size_t n = 0; n < COUNT(n_holds); n++)
            for (uint64_t due_ms = 5000000; due_ms < 5002000; due_ms++) {
                uint64_t at_ms = relock_hold_meeting_ms(due_ms, intervals[i], n_holds[n], 77);

                assert_true(at_ms <= due_ms);
                assert_true(at_ms > due_ms - intervals[i] / 10 || at_ms == due_ms);
            }
    assert_true(relock_hold_meeting_ms(RELOCK_NEVER, 9 * SECOND, 1, 77) == RELOCK_NEVER);
}

static void a_turn_brings_a_renewal_forward_by_a_fortieth_and_100_ms_at_most(void **state)
{
    (void)state;

    assert_int_equal(relock_hold_ahead_ms(9 * SECOND), 100);
    assert_int_equal(relock_hold_ahead_ms(900), 22);
    assert_int_equal(relock_hold_ahead_ms(400), 10);
    assert_int_equal(relock_hold_ahead_ms(399), 0);
    assert_int_equal(relock_hold_ahead_ms(0), 0);
    assert_true(relock_hold_ahead_ms(RELOCK_TEN_YEARS_MS) == 100);
}

static void count_times(unsigned n_holds, unsigned phase, unsigned *n_times, unsigned *shared)
{
    uint64_t last_ms = 0;

    *n_times = 0;
    *shared = 0;
    for (uint64_t due_ms = 9 * SECOND; due_ms < 18 * SECOND; due_ms++) {
        uint64_t at_ms = relock_hold_meeting_ms(due_ms, 9 * SECOND, n_holds, phase);

        *n_times += at_ms != last_ms;
        *shared += at_ms == relock_hold_meeting_ms(due_ms, 9 * SECOND, n_holds, 0);
        last_ms = at_ms;
    }
}

static void few_holds_meet_at_few_times_and_many_holds_at_many(void **state)
{
    unsigned n_times, shared;

    (void)state;

    count_times(1000, 0, &n_times, &shared);
    assert_in_range(n_times, 17, 19); /* 512 ms */
    count_times(100000, 0, &n_times, &shared);
    assert_in_range(n_times, 562, 564); /* 16 ms: 100,000 / 562 = 178 holds */
    count_times(10000000, 0, &n_times, &shared);
    assert_int_equal(n_times, 9 * SECOND);
}

static void clients_meet_at_times_of_their_own(void **state)
{
    unsigned n_times, shared;

    (void)state;

    count_times(1000, 200, &n_times, &shared);
    assert_int_equal(shared, 0);
}

/* Holds with other leases meet them there. */
static void cells_of_all_intervals_begin_together(void **state)
{
    (void)state;

    for (uint64_t due_ms = 30 * SECOND; due_ms < 39 * SECOND; due_ms++) {
        uint64_t at_ms = relock_hold_meeting_ms(due_ms, 30 * SECOND, 1, 77);

        assert_int_equal((at_ms + 77) % 512, 0);
    }
}

static void successive_holds_are_spread_over_the_interval(void **state)
{
    unsigned n_in_part[10] = {0};

    (void)state;

    for (uint64_t serial = 12345; serial < 12345 + 1000; serial++) {
        uint64_t sooner_ms = relock_hold_spread_ms(serial, 9 * SECOND);

        assert_true(sooner_ms < 9 * SECOND);
        n_in_part[sooner_ms * 10 / (9 * SECOND)]++;
    }
    for (size_t i = 0; i < COUNT(n_in_part); i++)
        assert_in_range(n_in_part[i], 90, 110);
    assert_int_equal(relock_hold_spread_ms(12345, 0), 0);
    assert_true(relock_hold_spread_ms(12345, RELOCK_TEN_YEARS_MS) < RELOCK_TEN_YEARS_MS);
}

static void a_failed_renewal_is_retried_after_10_to_500_ms(void **state)
{
    static const struct {
        uint64_t lease_ms, retry_ms;
    } cases[] = {
        {0, 10},    {30, 10},    {200, 10},    {219, 10},          {220, 11},
        {1000, 50}, {9980, 499}, {10000, 500}, {30 * SECOND, 500}, {RELOCK_TEN_YEARS_MS, 500},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(relock_hold_retry_ms(cases[i].lease_ms), cases[i].retry_ms);
}

/* ---- states -------------------------------------------------------------------------------- */

static void a_hold_is_held_until_it_is_lost_or_released(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(held); i++)
        assert_true(relock_hold_is_held(&(struct relock_hold){.state = held[i]}));
    for (size_t i = 0; i < COUNT(not_held); i++)
        assert_false(relock_hold_is_held(&(struct relock_hold){.state = not_held[i]}));
}

static void a_hold_is_certain_while_held_and_in_time(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(held); i++) {
        struct relock_hold hold = {.state = held[i], .valid_until_ms = 500};

        assert_true(relock_hold_is_certain(&hold, 0));
        assert_true(relock_hold_is_certain(&hold, 499));
        assert_false(relock_hold_is_certain(&hold, 500));
        assert_false(relock_hold_is_certain(&hold, 501));
    }
    for (size_t i = 0; i < COUNT(not_held); i++) {
        struct relock_hold hold = {.state = not_held[i], .valid_until_ms = 500};

        assert_false(relock_hold_is_certain(&hold, 0));
    }
}

static void a_hold_is_renewed_until_its_cap_if_a_level_asked_for_it(void **state)
{
    struct relock_hold hold = {.keeping = RELOCK_HOLD_RENEWED, .cap_ms = 500};

    (void)state;

    assert_true(relock_hold_is_renewed(&hold, 499));
    assert_false(relock_hold_is_renewed(&hold, 500));
    hold.cap_ms = RELOCK_NEVER;
    assert_true(relock_hold_is_renewed(&hold, RELOCK_NEVER - 1));
    hold.keeping = RELOCK_HOLD_KEPT;
    assert_true(relock_hold_is_renewed(&hold, 0));
    hold.keeping = RELOCK_HOLD_FIXED;
    assert_false(relock_hold_is_renewed(&hold, 0));
}

/* ---- when the watchdog looks --------------------------------------------------------------- */

static struct relock_hold renewed_hold(void)
{
    return (struct relock_hold){
        .state = RELOCK_HOLD_HELD,
        .keeping = RELOCK_HOLD_RENEWED,
        .renew_at_ms = 100,
        .valid_until_ms = 300,
        .cap_ms = RELOCK_NEVER,
        .tracked = {.due_ms = RELOCK_NEVER},
    };
}

static void a_renewed_hold_is_due_at_its_renewal(void **state)
{
    struct relock_hold hold = renewed_hold();

    (void)state;

    assert_int_equal(relock_hold_due_ms(&hold, 0), 100);
    hold.state = RELOCK_HOLD_SUSPECT;
    assert_int_equal(relock_hold_due_ms(&hold, 0), 100);
    /* A late renewal keeps its due time. */
    assert_int_equal(relock_hold_due_ms(&hold, 200), 100);
    hold.renew_at_ms = hold.valid_until_ms;
    assert_int_equal(relock_hold_due_ms(&hold, 0), 300);
}

static void a_hold_is_due_at_its_end_when_no_renewal_comes_before(void **state)
{
    struct relock_hold hold = renewed_hold();

    (void)state;

    hold.command = RELOCK_HOLD_SENT;
    assert_int_equal(relock_hold_due_ms(&hold, 99), 100);
    assert_int_equal(relock_hold_due_ms(&hold, 100), 300);
    hold = renewed_hold();
    hold.keeping = RELOCK_HOLD_FIXED;
    assert_int_equal(relock_hold_due_ms(&hold, 0), 300);
    hold = renewed_hold();
    hold.renew_at_ms = 301;
    assert_int_equal(relock_hold_due_ms(&hold, 0), 300);
}

static void a_hold_at_its_cap_is_due_at_its_end(void **state)
{
    struct relock_hold hold = renewed_hold();

    (void)state;

    hold.cap_ms = 50;
    assert_int_equal(relock_hold_due_ms(&hold, 49), 100);
    assert_int_equal(relock_hold_due_ms(&hold, 50), 300);
}

static void a_settling_hold_is_due_once_no_command_can_be_answered(void **state)
{
    struct relock_hold hold = {.state = RELOCK_HOLD_SETTLING, .renew_at_ms = 100};

    (void)state;

    assert_int_equal(relock_hold_due_ms(&hold, 0), 100);
    hold.command = RELOCK_HOLD_SENT;
    assert_true(relock_hold_due_ms(&hold, 0) == RELOCK_NEVER);
    hold.command = RELOCK_HOLD_NOTHING_SENT;
    hold.busy = true;
    assert_true(relock_hold_due_ms(&hold, 0) == RELOCK_NEVER);
    hold.busy = false;
    hold.n_unanswered = 1;
    assert_true(relock_hold_due_ms(&hold, 0) == RELOCK_NEVER);
}

static void only_held_and_settling_holds_are_due(void **state)
{
    static const enum relock_hold_state never[] = {RELOCK_HOLD_ASKED, RELOCK_HOLD_LOST,
                                                   RELOCK_HOLD_RELEASING, RELOCK_HOLD_ENDED};
    struct relock_hold hold = renewed_hold();

    (void)state;

    for (size_t i = 0; i < COUNT(never); i++) {
        hold.state = never[i];
        assert_true(relock_hold_due_ms(&hold, 0) == RELOCK_NEVER);
    }
}

static void a_hold_that_ran_out_expired_unless_its_cap_came_first(void **state)
{
    struct relock_hold hold = renewed_hold();

    (void)state;

    assert_int_equal(relock_hold_expiry_reason(&hold), RELOCK_LOST_EXPIRED);
    hold.cap_ms = hold.valid_until_ms + 1;
    assert_int_equal(relock_hold_expiry_reason(&hold), RELOCK_LOST_EXPIRED);
    hold.cap_ms = hold.valid_until_ms;
    assert_int_equal(relock_hold_expiry_reason(&hold), RELOCK_LOST_CAPPED);
    hold.keeping = RELOCK_HOLD_FIXED;
    assert_int_equal(relock_hold_expiry_reason(&hold), RELOCK_LOST_EXPIRED);
}

/* ---- reports ------------------------------------------------------------------------------- */

static struct relock_grant report(enum relock_hold_state hold_state, uint64_t now_ms)
{
    static const struct relock_kind kind;
    struct relock_resource resource = {.kind = &kind};
    struct relock_hold hold = renewed_hold();
    struct relock_grant grant;

    hold.resource = &resource;
    hold.state = hold_state;
    hold.owner = 42;
    hold.count = 3;
    hold.acked_replicas = 2;
    memset(&grant, 0xff, sizeof(grant));
    relock_hold_report(&hold, now_ms, &grant);
    return grant;
}

static void a_report_fills_every_field_of_the_grant(void **state)
{
    static const struct relock_grant unused;
    struct relock_grant grant = report(RELOCK_HOLD_HELD, 120);

    (void)state;

    assert_int_equal(grant.owner, 42);
    assert_int_equal(grant.hold_count, 3);
    assert_int_equal(grant.acked_replicas, 2);
    assert_int_equal(grant.valid_ms, 180);
    assert_int_equal(grant.fencing_token, 0);
    assert_memory_equal(grant.reserved, unused.reserved, sizeof(grant.reserved));
}

static void the_valid_time_of_an_uncertain_hold_is_zero(void **state)
{
    (void)state;

    assert_int_equal(report(RELOCK_HOLD_SUSPECT, 299).valid_ms, 1);
    assert_int_equal(report(RELOCK_HOLD_HELD, 300).valid_ms, 0);
    assert_int_equal(report(RELOCK_HOLD_HELD, 301).valid_ms, 0);
    for (size_t i = 0; i < COUNT(not_held); i++)
        assert_int_equal(report(not_held[i], 120).valid_ms, 0);
    assert_int_equal(report(RELOCK_HOLD_LOST, 120).hold_count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_certain_less_one_percent_and_two_ms),
        cmocka_unit_test(a_lease_below_the_drift_is_never_certain),
        cmocka_unit_test(no_lease_is_certain_for_all_of_its_length),
        cmocka_unit_test(a_huge_lease_does_not_wrap),
        cmocka_unit_test(a_lease_is_renewed_a_little_before_a_third_of_it_is_over),
        cmocka_unit_test(a_renewal_comes_forward_by_a_tenth_at_most_and_never_back),
        cmocka_unit_test(a_turn_brings_a_renewal_forward_by_a_fortieth_and_100_ms_at_most),
        cmocka_unit_test(few_holds_meet_at_few_times_and_many_holds_at_many),
        cmocka_unit_test(clients_meet_at_times_of_their_own),
        cmocka_unit_test(cells_of_all_intervals_begin_together),
        cmocka_unit_test(successive_holds_are_spread_over_the_interval),
        cmocka_unit_test(a_failed_renewal_is_retried_after_10_to_500_ms),
        cmocka_unit_test(a_hold_is_held_until_it_is_lost_or_released),
        cmocka_unit_test(a_hold_is_certain_while_held_and_in_time),
        cmocka_unit_test(a_hold_is_renewed_until_its_cap_if_a_level_asked_for_it),
        cmocka_unit_test(a_renewed_hold_is_due_at_its_renewal),
        cmocka_unit_test(a_hold_is_due_at_its_end_when_no_renewal_comes_before),
        cmocka_unit_test(a_hold_at_its_cap_is_due_at_its_end),
        cmocka_unit_test(a_settling_hold_is_due_once_no_command_can_be_answered),
        cmocka_unit_test(only_held_and_settling_holds_are_due),
        cmocka_unit_test(a_hold_that_ran_out_expired_unless_its_cap_came_first),
        cmocka_unit_test(a_report_fills_every_field_of_the_grant),
        cmocka_unit_test(the_valid_time_of_an_uncertain_hold_is_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
