/* Options: defaults, and invalid values. */
#include "lock/state/options.h"

#include "support/log.h"
#include "support/losses.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define TEN_YEARS RELOCK_TEN_YEARS_MS

static struct log *lines;
static struct relock_log sink;

static int make_log(void **state)
{
    (void)state;
    lines = log_new();
    sink = (struct relock_log){.level = RELOCK_LOG_INFO, .sink = log_write, .arg = lines};
    return 0;
}

static int drop_log(void **state)
{
    (void)state;
    lines = log_free(lines);
    return 0;
}

static void assert_are_defaults(const struct relock_options *options)
{
    assert_string_equal(options->url, "redis://127.0.0.1:6379");
    assert_null(options->user);
    assert_null(options->password);
    assert_null(options->client_name);
    assert_int_equal(options->watchdog_timeout_ms, 30000);
    assert_int_equal(options->connect_timeout_ms, 1000);
    assert_int_equal(options->command_timeout_ms, 3000);
    assert_int_equal(options->recheck_ms, 5000);
    assert_int_equal(options->handoff_ms, 10);
    assert_int_equal(options->replica_timeout_ms, 1000);
    assert_int_equal(options->max_hold_ms, 0);
    assert_int_equal(options->release_timeout_ms, 3000);
    assert_int_equal(options->keep_ms, 0);
    assert_int_equal(options->connections, 8);
    assert_int_equal(options->min_replicas, 0);
    assert_int_equal(options->flags, 0);
    assert_int_equal(options->log_level, RELOCK_LOG_INFO);
    assert_null(options->on_lost);
    assert_null(options->on_log);
}

static void zero_and_null_mean_the_defaults(void **state)
{
    static const struct relock_options zero;
    struct relock_options options;

    (void)state;

    assert_int_equal(relock_options_read(&options, NULL, &sink), RELOCK_OK);
    assert_are_defaults(&options);
    assert_int_equal(relock_options_read(&options, &zero, &sink), RELOCK_OK);
    assert_are_defaults(&options);
    assert_int_equal(log_count(lines, ""), 0);
}

static void given_options_stay_as_they_are(void **state)
{
    struct relock_options given = {
        .url = "unix:///s",
        .user = "u",
        .password = "pw",
        .client_name = "shop",
        .watchdog_timeout_ms = 30,
        .connect_timeout_ms = 1,
        .command_timeout_ms = 2,
        .recheck_ms = 3,
        .handoff_ms = 4,
        .replica_timeout_ms = 5,
        .max_hold_ms = TEN_YEARS,
        .release_timeout_ms = 6,
        .deadlock_ms = RELOCK_FOREVER,
        .connections = 1024,
        .min_replicas = 7,
        .flags = RELOCK_LAZY | RELOCK_ANNOUNCE_PLAIN | RELOCK_TLS_INSECURE | RELOCK_NO_SPIN |
                 RELOCK_NO_TRACKING | RELOCK_DEFER_RELEASES,
        .log_level = RELOCK_LOG_DEBUG,
        .on_lost = losses_drop,
        .on_log = log_write,
        .arg = &given,
    };
    struct relock_options options;

    (void)state;

    assert_int_equal(relock_options_read(&options, &given, &sink), RELOCK_OK);
    assert_memory_equal(&options, &given, sizeof(options));
}

/* Each has one invalid option, which the log must name. */
static const struct {
    struct relock_options options;
    const char *named;
    int result;
} refused[] = {
    {{.reserved = {1}}, "reserved", RELOCK_E_INVALID},
    {{.reserved = {0, 1}}, "reserved", RELOCK_E_INVALID},
    {{.flags = RELOCK_DEFER_RELEASES << 1}, "flags", RELOCK_E_INVALID},
    {{.flags = UINT_MAX}, "flags", RELOCK_E_INVALID},
    {{.log_level = RELOCK_LOG_DEBUG + 1}, "log_level", RELOCK_E_INVALID},
    {{.log_level = RELOCK_LOG_ERROR - 1}, "log_level", RELOCK_E_INVALID},
    {{.log_level = 1}, "log_level", RELOCK_E_INVALID},
    {{.log_level = -1}, "log_level", RELOCK_E_INVALID},
    {{.watchdog_timeout_ms = TEN_YEARS + 1}, "watchdog_timeout_ms", RELOCK_E_INVALID},
    {{.connect_timeout_ms = TEN_YEARS + 1}, "connect_timeout_ms", RELOCK_E_INVALID},
    {{.command_timeout_ms = UINT64_MAX}, "command_timeout_ms", RELOCK_E_INVALID},
    {{.recheck_ms = TEN_YEARS + 1}, "recheck_ms", RELOCK_E_INVALID},
    {{.handoff_ms = TEN_YEARS + 1}, "handoff_ms", RELOCK_E_INVALID},
    {{.replica_timeout_ms = TEN_YEARS + 1}, "replica_timeout_ms", RELOCK_E_INVALID},
    {{.max_hold_ms = TEN_YEARS + 1}, "max_hold_ms", RELOCK_E_INVALID},
    {{.deadlock_ms = TEN_YEARS + 1}, "deadlock_ms", RELOCK_E_INVALID},
    {{.recheck_ms = RELOCK_FOREVER, .deadlock_ms = RELOCK_FOREVER}, "recheck_ms", RELOCK_E_INVALID},
    {{.watchdog_timeout_ms = 29}, "watchdog_timeout_ms", RELOCK_E_INVALID},
    {{.watchdog_timeout_ms = 1}, "watchdog_timeout_ms", RELOCK_E_INVALID},
    {{.connections = 1025}, "connections", RELOCK_E_INVALID},
    {{.client_name = ""}, "client_name", RELOCK_E_INVALID},
    {{.client_name = "a b"}, "client_name", RELOCK_E_INVALID},
    {{.client_name = "a\n"}, "client_name", RELOCK_E_INVALID},
    {{.client_name = "caf\xc3\xa9"}, "client_name", RELOCK_E_INVALID},
    {{.client_name = "\x7f"}, "client_name", RELOCK_E_INVALID},
};

static void a_prefix_has_at_most_1024_bytes(void **state)
{
    char prefix[1026];
    struct relock_options options, given = {.name_prefix = prefix};

    (void)state;

    memset(prefix, 'x', sizeof(prefix));
    prefix[1025] = '\0';
    log_clear(lines);
    assert_int_equal(relock_options_read(&options, &given, &sink), RELOCK_E_INVALID);
    assert_int_equal(log_count(lines, "name_prefix"), 1);
    prefix[1024] = '\0';
    assert_int_equal(relock_options_read(&options, &given, &sink), RELOCK_OK);
}

static void an_invalid_option_is_refused_and_named_in_the_log(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(refused); i++) {
        struct relock_options options;

        log_clear(lines);
        assert_int_equal(relock_options_read(&options, &refused[i].options, &sink),
                         refused[i].result);
        assert_int_equal(log_count(lines, ""), 1);
        assert_int_equal(log_count_grave(lines, RELOCK_LOG_ERROR), 1);
        assert_int_equal(log_count(lines, refused[i].named), 1);
    }
}

static void a_connection_name_may_contain_any_plain_character(void **state)
{
    struct relock_options options;

    (void)state;

    assert_int_equal(relock_options_read(
                         &options, &(struct relock_options){.client_name = "!shop:42/{a}~"}, &sink),
                     RELOCK_OK);
}

static void without_a_name_host_and_process_are_named(void **state)
{
    static const char host[] = "a-host-whose-name-is-as-long-as-the-system-allows-which-is-64-or";
    char name[RELOCK_CLIENT_NAME_MAX];

    (void)state;

    assert_string_equal(relock_options_name("web1.example", 4711, name),
                        "relock:web1.example:4711");
    assert_string_equal(relock_options_name("a b\tc\nd\x7f\xc3\xa9~!", 1, name),
                        "relock:a-b-c-d---~!:1");
    assert_string_equal(relock_options_name("", 1, name), "relock:-:1");
    assert_int_equal(strlen(relock_options_name(host, INT32_MAX, name)), 7 + 64 + 11);
}

/* Like relock_client_new(): first the log, which reports the other invalid options. */
static void a_refusal_is_logged_to_the_sink_of_the_program(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(refused); i++) {
        struct relock_options given = refused[i].options;
        struct relock_options options;
        struct relock_log own;

        given.on_log = log_write;
        given.arg = lines;
        log_clear(lines);
        relock_options_log(&given, &own);
        assert_int_equal(relock_options_read(&options, &given, &own), refused[i].result);
        if (log_count(lines, refused[i].named) != 1)
            fail_msg("%s, %d: no line", refused[i].named, refused[i].options.log_level);
    }
}

static void the_log_has_the_level_of_the_program(void **state)
{
    struct relock_options given = {
        .log_level = RELOCK_LOG_WARNING, .on_log = log_write, .arg = &sink};
    struct relock_log own;

    (void)state;

    relock_options_log(&given, &own);
    assert_int_equal(own.level, RELOCK_LOG_WARNING);
    assert_ptr_equal(own.sink, log_write);
    assert_ptr_equal(own.arg, &sink);
    given.log_level = 0;
    relock_options_log(&given, &own);
    assert_int_equal(own.level, RELOCK_LOG_INFO);
    relock_options_log(NULL, &own);
    assert_int_equal(own.level, RELOCK_LOG_INFO);
    assert_null(own.sink);
}

static void every_reserved_field_must_be_zero(void **state)
{
    uint64_t reserved[4] = {0};

    (void)state;

    assert_true(relock_options_unused(reserved, 4));
    for (int i = 0; i < 4; i++) {
        reserved[i] = UINT64_C(1) << 63;
        assert_false(relock_options_unused(reserved, 4));
        reserved[i] = 0;
    }
    reserved[3] = 1;
    assert_true(relock_options_unused(reserved, 3));
}

#define OPTIONS_TEST(function) cmocka_unit_test_setup_teardown(function, make_log, drop_log)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTIONS_TEST(zero_and_null_mean_the_defaults),
        OPTIONS_TEST(given_options_stay_as_they_are),
        OPTIONS_TEST(a_prefix_has_at_most_1024_bytes),
        OPTIONS_TEST(an_invalid_option_is_refused_and_named_in_the_log),
        OPTIONS_TEST(a_connection_name_may_contain_any_plain_character),
        OPTIONS_TEST(without_a_name_host_and_process_are_named),
        OPTIONS_TEST(a_refusal_is_logged_to_the_sink_of_the_program),
        OPTIONS_TEST(the_log_has_the_level_of_the_program),
        OPTIONS_TEST(every_reserved_field_must_be_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
