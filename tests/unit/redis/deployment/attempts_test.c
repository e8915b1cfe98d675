/* What comes after an attempt: outcomes and the steps that follow them. */
#include "redis/deployment/run.h"

#include "base/clock.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define LONG_MS 60000

static struct relock_attempts attempts;

static void begin(uint64_t ms)
{
    relock_attempts_begin(&attempts, true, relock_clock_in(ms), 0);
}

static enum relock_attempts_step step(int result, const char *error, const char *why)
{
    return relock_attempts_step(&attempts, result, error, why);
}

static void each_outcome_has_its_step(void **state)
{
    static const struct {
        int outcome;
        const char *error;
        enum relock_attempts_step step;
        int result; /* if there is no other attempt */
        bool unanswered;
    } rows[] = {
        {RELOCK_E_CONN, NULL, RELOCK_ATTEMPTS_PAUSE, RELOCK_E_CONN, false},
        {RELOCK_AGAIN, NULL, RELOCK_ATTEMPTS_PAUSE, RELOCK_E_SERVER, false},
        {RELOCK_REPLICA, NULL, RELOCK_ATTEMPTS_PAUSE, RELOCK_E_SERVER, false},
        {RELOCK_MOVED, "MOVED 1 b:1", RELOCK_ATTEMPTS_FOLLOW, RELOCK_E_SERVER, false},
        {RELOCK_E_NOMEM, NULL, RELOCK_ATTEMPTS_END, RELOCK_E_NOMEM, false},
        {RELOCK_E_AUTH, NULL, RELOCK_ATTEMPTS_END, RELOCK_E_AUTH, false},
        {RELOCK_E_SERVER, "LOADING a dataset", RELOCK_ATTEMPTS_PAUSE, RELOCK_E_SERVER, false},
        {RELOCK_E_SERVER, "READONLY a replica", RELOCK_ATTEMPTS_PAUSE, RELOCK_E_SERVER, false},
        {RELOCK_E_SERVER, "MOVED 1 b:1", RELOCK_ATTEMPTS_PAUSE, RELOCK_E_SERVER, false},
        {RELOCK_E_SERVER, "ERR Script attempted to access a non local key in a cluster node",
         RELOCK_ATTEMPTS_PAUSE, RELOCK_E_SERVER, true},
        {RELOCK_E_SERVER, "NOSCRIPT none", RELOCK_ATTEMPTS_END, RELOCK_E_SERVER, false},
        {RELOCK_E_SERVER, "NOPERM no right", RELOCK_ATTEMPTS_END, RELOCK_E_AUTH, false},
        {RELOCK_E_SERVER, "OOM no memory", RELOCK_ATTEMPTS_END, RELOCK_E_SERVER, false},
        {RELOCK_E_SERVER, "ERR unknown", RELOCK_ATTEMPTS_END, RELOCK_E_SERVER, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        begin(LONG_MS);
        assert_int_equal(step(rows[i].outcome, rows[i].error, "why"), rows[i].step);
        assert_int_equal(attempts.result, rows[i].result);
        assert_int_equal(attempts.unanswered, rows[i].unanswered);
        assert_string_equal(attempts.why, "why");
    }
}

static void a_redirection_of_a_server_without_a_cluster_is_final(void **state)
{
    (void)state;
    relock_attempts_begin(&attempts, false, relock_clock_in(LONG_MS), 0);
    assert_int_equal(step(RELOCK_E_SERVER, "MOVED 1 b:1", "why"), RELOCK_ATTEMPTS_END);
}

/* A call that must not run twice. */
static void a_call_that_is_once_ends_with_the_attempt_that_may_have_run(void **state)
{
    static const struct {
        int outcome;
        const char *error;
        bool unanswered; /* the driver says so */
        enum relock_attempts_step step;
        int result;
    } rows[] = {
        {RELOCK_E_CONN, NULL, false, RELOCK_ATTEMPTS_PAUSE, RELOCK_E_CONN},
        {RELOCK_E_SERVER, "LOADING a dataset", false, RELOCK_ATTEMPTS_PAUSE, RELOCK_E_SERVER},
        {RELOCK_E_SERVER, "READONLY a replica", false, RELOCK_ATTEMPTS_PAUSE, RELOCK_E_SERVER},
        {RELOCK_MOVED, "MOVED 1 b:1", false, RELOCK_ATTEMPTS_FOLLOW, RELOCK_E_SERVER},
        {RELOCK_E_SERVER, "OOM no memory", false, RELOCK_ATTEMPTS_END, RELOCK_E_SERVER},
        {RELOCK_E_CONN, NULL, true, RELOCK_ATTEMPTS_END, RELOCK_E_CONN},
        {RELOCK_E_NOMEM, NULL, true, RELOCK_ATTEMPTS_END, RELOCK_E_CONN},
        {RELOCK_E_SERVER, "ERR Script attempted to access a non local key in a cluster node", false,
         RELOCK_ATTEMPTS_END, RELOCK_E_CONN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        begin(LONG_MS);
        attempts.is_once = true;
        (void)step(RELOCK_E_SERVER, "LOADING", "loading");
        attempts.unanswered = rows[i].unanswered;
        assert_int_equal(step(rows[i].outcome, rows[i].error, "why"), rows[i].step);
        if (rows[i].outcome != RELOCK_E_CONN || rows[i].unanswered)
            assert_int_equal(attempts.result, rows[i].result);
    }
}

static void a_refusal_is_told_rather_than_that_there_was_no_time(void **state)
{
    (void)state;
    begin(LONG_MS);
    (void)step(RELOCK_E_CONN, NULL, "first");
    (void)step(RELOCK_E_SERVER, "LOADING", "loading");
    (void)step(RELOCK_E_CONN, NULL, "too late");
    assert_int_equal(attempts.result, RELOCK_E_SERVER);
    assert_string_equal(attempts.why, "loading");
}

/* The caller must not take it for one that Redis has refused. */
static void a_command_without_an_answer_is_told_rather_than_an_earlier_refusal(void **state)
{
    (void)state;
    begin(LONG_MS);
    (void)step(RELOCK_E_SERVER, "LOADING", "loading");
    attempts.unanswered = true;
    (void)step(RELOCK_E_CONN, NULL, "no answer");
    assert_int_equal(attempts.result, RELOCK_E_CONN);
    assert_string_equal(attempts.why, "no answer");
}

static void the_first_pause_is_that_of_the_driver_and_the_others_grow(void **state)
{
    uint64_t longest_ms = 0;

    (void)state;
    begin(LONG_MS);
    (void)step(RELOCK_E_CONN, NULL, "why");
    assert_true(attempts.until_ms <= relock_clock_now_ms());
    for (int i = 0; i < 50; i++) {
        uint64_t now_ms = relock_clock_now_ms();
        uint64_t pause_ms;

        assert_true(attempts.pause_ms >= RELOCK_ATTEMPTS_PAUSE_MS);
        (void)step(RELOCK_E_CONN, NULL, "why");
        pause_ms = attempts.until_ms - now_ms;
        if (pause_ms > longest_ms)
            longest_ms = pause_ms;
    }
    assert_in_range(longest_ms, 3 * RELOCK_ATTEMPTS_PAUSE_MS, LONG_MS / 10);
}

static void a_pause_ends_at_the_deadline(void **state)
{
    (void)state;
    begin(1);
    attempts.pause_ms = LONG_MS;
    assert_int_equal(step(RELOCK_E_CONN, NULL, "why"), RELOCK_ATTEMPTS_PAUSE);
    assert_int_equal(attempts.until_ms, attempts.deadline_ms);
}

static void a_redirection_is_not_followed_after_the_deadline(void **state)
{
    (void)state;
    begin(0);
    assert_int_equal(step(RELOCK_MOVED, "MOVED 1 b:1", "why"), RELOCK_ATTEMPTS_PAUSE);
    assert_int_equal(attempts.until_ms, attempts.deadline_ms);
}

static void redirections_are_counted_from_the_last_pause(void **state)
{
    (void)state;
    begin(LONG_MS);
    attempts.n_redirects = 3;
    (void)step(RELOCK_MOVED, "MOVED 1 b:1", "why");
    assert_int_equal(attempts.n_redirects, 3);
    (void)step(RELOCK_E_SERVER, "MOVED 1 b:1", "why");
    assert_int_equal(attempts.n_redirects, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_outcome_has_its_step),
        cmocka_unit_test(a_redirection_of_a_server_without_a_cluster_is_final),
        cmocka_unit_test(a_call_that_is_once_ends_with_the_attempt_that_may_have_run),
        cmocka_unit_test(a_refusal_is_told_rather_than_that_there_was_no_time),
        cmocka_unit_test(a_command_without_an_answer_is_told_rather_than_an_earlier_refusal),
        cmocka_unit_test(the_first_pause_is_that_of_the_driver_and_the_others_grow),
        cmocka_unit_test(a_pause_ends_at_the_deadline),
        cmocka_unit_test(a_redirection_is_not_followed_after_the_deadline),
        cmocka_unit_test(redirections_are_counted_from_the_last_pause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
