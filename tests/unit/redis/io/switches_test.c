/* A client hears of failovers from a sentinel, and finds earlier ones when it subscribes. */
#include "redis/io/io.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "redis/lane/sentinels.h"
#include "redis/server/loop.h"
#include "support/script_server.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"
#define OLD_MAX 8

static struct script_server *script;
static struct relock_log sink = {.level = -1};
static struct relock_server server;
static struct relock_loop *loop;
static struct relock_switches *switches;

/* Written by the I/O thread. */
static struct relock_gate heard;
static char olds[OLD_MAX][32]; /* host:port */
static atomic_uint n_olds;

static void on_switch(void *arg, const struct relock_peer *old)
{
    unsigned n = atomic_load(&n_olds);

    (void)arg;
    if (n < OLD_MAX) {
        snprintf(olds[n], sizeof(olds[0]), "%s:%s", old->host, old->port);
        atomic_store(&n_olds, n + 1);
    }
    relock_gate_open(&heard);
}

static uint64_t never(void *arg)
{
    (void)arg;
    return RELOCK_NEVER;
}

/* The sentinel of the url is played by the script, at its path. */
static int begin(void **state)
{
    const struct relock_options options = {.url = "redis+sentinel://s1/shop",
                                           .connect_timeout_ms = slow_ms(SOON_MS),
                                           .command_timeout_ms = slow_ms(SOON_MS)};
    struct relock_server *sentinel;

    (void)state;
    atomic_store(&n_olds, 0);
    relock_gate_init(&heard);
    script = script_server_start();
    if (relock_server_init(&server, &options, "id", &sink) != RELOCK_OK ||
        relock_sentinels_attach(&server, &options, "id") != RELOCK_OK ||
        relock_loop_new(never, NULL, &loop) != RELOCK_OK ||
        relock_switches_new(loop, &server, 0, on_switch, NULL, &switches) != RELOCK_OK)
        return -1;
    sentinel = (struct relock_server *)relock_sentinels_at(server.sentinels, 0);
    sentinel->url.path = strdup(script_server_url(script) + strlen("unix://"));
    return 0;
}

static int end(void **state)
{
    bool played = script_played(script);

    (void)state;
    relock_loop_stop(loop);
    switches = relock_switches_free(switches);
    loop = relock_loop_free(loop);
    relock_server_deinit(&server);
    script_server_end(script);
    return played ? 0 : -1;
}

/* ---- the sentinel -------------------------------------------------------------------------- */

static void subscription_comes(void)
{
    script_accept(script);
    script_expect(script, "HELLO");
    script_answer(script, SCRIPT_HELLO);
    script_expect(script, "SENTINEL GET-MASTER-ADDR-BY-NAME shop");
    script_expect(script, "SENTINEL MASTER shop");
    script_expect(script, "SUBSCRIBE +switch-master");
}

/* The master is at 127.0.0.1:`port`, in the configuration of that number. Both have one digit. */
static void tells(int port, int epoch)
{
    char text[128];

    snprintf(text, sizeof(text),
             "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n%d\r\n"
             "*4\r\n$4\r\nname\r\n$4\r\nshop\r\n$12\r\nconfig-epoch\r\n$1\r\n%d\r\n",
             port, epoch);
    subscription_comes();
    script_answer(script, text);
    script_answer(script, SUBSCRIBED);
}

static void reports(const char *text)
{
    char message[160];

    snprintf(message, sizeof(message),
             "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n", strlen(text), text);
    script_answer(script, message);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void uses(int port, uint64_t epoch)
{
    const struct relock_master master = {
        .host = "127.0.0.1", .port = (uint16_t)port, .epoch = epoch};

    relock_succession_use(relock_sentinels_succession(server.sentinels), &master);
}

static void leaves(int port)
{
    char text[8];

    snprintf(text, sizeof(text), "%d", port);
    relock_sentinels_retire(server.sentinels, &(struct relock_peer){"127.0.0.1", text});
}

/* Plays the script. These were replaced, in this order. */
static void hears(unsigned n, const char *const expected[])
{
    relock_switches_open(switches);
    assert_int_equal(relock_loop_start(loop), RELOCK_OK);
    assert_true(script_played(script));
    while (atomic_load(&n_olds) < n)
        assert_true(relock_gate_wait(&heard, relock_clock_in(slow_ms(SOON_MS))));
    relock_loop_stop(loop);
    assert_int_equal(atomic_load(&n_olds), n);
    for (unsigned i = 0; i < n; i++)
        assert_string_equal(olds[i], expected[i]);
}

#define HEARS(...)                                                           \
    hears(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), \
          (const char *const[]){__VA_ARGS__})

static void a_report_counts_once(void **state)
{
    (void)state;

    uses(1, 1);
    tells(1, 1);
    reports("shop 127.0.0.1 1 127.0.0.1 2");
    reports("shop 127.0.0.1 1 127.0.0.1 2");
    reports("shop 127.0.0.1 2 127.0.0.1 1");
    HEARS("127.0.0.1:1", "127.0.0.1:2");
}

static void a_report_about_another_master_does_not_count(void **state)
{
    (void)state;

    uses(1, 1);
    tells(1, 1);
    reports("shops 127.0.0.1 1 127.0.0.1 2");
    reports("");
    reports("shop 127.0.0.1 3 127.0.0.1 1");
    HEARS("127.0.0.1:3");
}

static void a_failover_without_a_subscription_is_found_out(void **state)
{
    (void)state;

    uses(1, 1);
    tells(1, 1);
    script_close(script);
    tells(2, 2);
    HEARS("127.0.0.1:1");
}

/* A call looked the new master up before the subscription was back. Other connections still lead to
 * the old one. */
static void a_failover_that_a_lookup_has_found_counts_once(void **state)
{
    (void)state;

    uses(1, 1);
    uses(2, 2);
    tells(2, 2);
    script_close(script);
    tells(2, 2);
    reports("shop 127.0.0.1 2 127.0.0.1 1");
    HEARS("127.0.0.1:1", "127.0.0.1:2");
}

static void two_failovers_without_a_subscription_both_count(void **state)
{
    (void)state;

    uses(1, 1);
    uses(2, 2);
    tells(3, 3);
    HEARS("127.0.0.1:2", "127.0.0.1:1");
}

static void a_failover_that_was_reported_before_a_lookup_found_it_counts_once(void **state)
{
    (void)state;

    uses(1, 1);
    leaves(1);
    uses(2, 2);
    tells(2, 2);
    reports("shop 127.0.0.1 2 127.0.0.1 1");
    HEARS("127.0.0.1:2");
}

static void a_failover_that_was_reported_after_a_lookup_found_it_counts_once(void **state)
{
    (void)state;

    uses(1, 1);
    uses(2, 2);
    leaves(1);
    tells(2, 2);
    reports("shop 127.0.0.1 2 127.0.0.1 1");
    HEARS("127.0.0.1:2");
}

/* No other sentinel could be reached. */
static void a_lookup_that_uses_an_older_configuration_replaces_nothing(void **state)
{
    (void)state;

    uses(2, 2);
    uses(1, 1);
    tells(1, 1);
    reports("shop 127.0.0.1 1 127.0.0.1 2");
    HEARS("127.0.0.1:1");
}

/* Its answer is older than that which is in use. */
static void a_sentinel_that_lags_replaces_nothing(void **state)
{
    (void)state;

    uses(2, 2);
    tells(1, 1);
    reports("shop 127.0.0.1 1 127.0.0.1 2");
    HEARS("127.0.0.1:1");
}

/* To 2; back to 1 while nobody listened; to 2 again. */
static void a_report_counts_again_after_a_failover_that_was_missed(void **state)
{
    (void)state;

    uses(1, 1);
    tells(1, 1);
    reports("shop 127.0.0.1 1 127.0.0.1 2");
    script_close(script);
    tells(3, 3);
    reports("shop 127.0.0.1 1 127.0.0.1 2");
    HEARS("127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1");
}

static void a_sentinel_that_refuses_the_questions_still_reports(void **state)
{
    (void)state;

    uses(1, 1);
    subscription_comes();
    script_answer(script, "-NOPERM no\r\n-NOPERM no\r\n" SUBSCRIBED);
    reports("shop 127.0.0.1 1 127.0.0.1 2");
    HEARS("127.0.0.1:1");
}

#define SWITCHES_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SWITCHES_TEST(a_report_counts_once),
        SWITCHES_TEST(a_report_about_another_master_does_not_count),
        SWITCHES_TEST(a_failover_without_a_subscription_is_found_out),
        SWITCHES_TEST(a_failover_that_a_lookup_has_found_counts_once),
        SWITCHES_TEST(two_failovers_without_a_subscription_both_count),
        SWITCHES_TEST(a_failover_that_was_reported_before_a_lookup_found_it_counts_once),
        SWITCHES_TEST(a_failover_that_was_reported_after_a_lookup_found_it_counts_once),
        SWITCHES_TEST(a_lookup_that_uses_an_older_configuration_replaces_nothing),
        SWITCHES_TEST(a_sentinel_that_lags_replaces_nothing),
        SWITCHES_TEST(a_report_counts_again_after_a_failover_that_was_missed),
        SWITCHES_TEST(a_sentinel_that_refuses_the_questions_still_reports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
