/* Log lines about a connection that fails and reconnects. */
#include "redis/io/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char said[512]; /* the lines since the last check, each ended by '|' */
static char label[] = "h:6379";
static struct relock_server server;
static struct relock_health health;

static void hear(int level, const char *line, void *arg)
{
    size_t len = strlen(said);

    (void)arg;
    if (level <= RELOCK_LOG_INFO)
        snprintf(said + len, sizeof(said) - len, "%s|", line);
}

static const struct relock_log log_lines = {.level = RELOCK_LOG_DEBUG, .sink = hear};

static int begin(void **state)
{
    (void)state;
    said[0] = '\0';
    server = (struct relock_server){.label = label, .log = &log_lines};
    relock_health_init(&health, &server);
    return 0;
}

/* Checks the state, and the lines since the last check. */
static void check(enum relock_health_state state, const char *lines)
{
    assert_int_equal(health.state, state);
    assert_string_equal(said, lines);
    said[0] = '\0';
}

static void a_first_connection_is_not_logged(void **state)
{
    (void)state;
    relock_health_return(&health, false);
    check(RELOCK_HEALTH_FINE, "");
    relock_health_prove(&health);
    check(RELOCK_HEALTH_FINE, "");
}

static void a_failure_and_the_reconnect_are_logged_once(void **state)
{
    (void)state;
    relock_health_break(&health, "refused");
    check(RELOCK_HEALTH_BROKEN, "refused; reconnecting|");
    relock_health_break(&health, "refused");
    check(RELOCK_HEALTH_BROKEN, "");
    relock_health_return(&health, true);
    check(RELOCK_HEALTH_RETURNED, "h:6379: connected again|");
    relock_health_prove(&health);
    check(RELOCK_HEALTH_FINE, "");
    relock_health_break(&health, "refused");
    check(RELOCK_HEALTH_BROKEN, "refused; reconnecting|");
}

static void another_cause_is_logged(void **state)
{
    (void)state;
    relock_health_break(&health, "closed");
    relock_health_break(&health, "refused");
    check(RELOCK_HEALTH_BROKEN, "closed; reconnecting|refused; reconnecting|");
}

static void a_connection_that_keeps_failing_has_to_prove_that_it_works(void **state)
{
    (void)state;
    relock_health_break(&health, "closed");
    relock_health_return(&health, true);
    relock_health_break(&health, "closed");
    check(RELOCK_HEALTH_REJECTED,
          "closed; reconnecting|h:6379: connected again|closed; reconnecting|");
    relock_health_return(&health, true);
    relock_health_break(&health, "closed");
    check(RELOCK_HEALTH_REJECTED, "");
    relock_health_return(&health, true);
    check(RELOCK_HEALTH_REJECTED, "");
    relock_health_prove(&health);
    check(RELOCK_HEALTH_FINE, "h:6379: connected again|");
}

static void a_connection_made_late_for_the_first_time_is_not_logged_as_a_reconnect(void **state)
{
    (void)state;
    relock_health_break(&health, "refused");
    relock_health_return(&health, false);
    check(RELOCK_HEALTH_RETURNED, "refused; reconnecting|h:6379: connected|");
}

#define HEALTH_TEST(function) cmocka_unit_test_setup(function, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEALTH_TEST(a_first_connection_is_not_logged),
        HEALTH_TEST(a_failure_and_the_reconnect_are_logged_once),
        HEALTH_TEST(another_cause_is_logged),
        HEALTH_TEST(a_connection_that_keeps_failing_has_to_prove_that_it_works),
        HEALTH_TEST(a_connection_made_late_for_the_first_time_is_not_logged_as_a_reconnect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
