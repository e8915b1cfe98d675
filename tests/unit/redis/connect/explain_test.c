/* Refusals of a server, explained: what the reader can do. */
#include "redis/connect/explain.h"

#include "redis/server/reply.h"
#include "support/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define SHA "9f2c1c5e0a534b6c8f2e5a1d3c7b9e1000000000"
#define SEE "; see docs/wire.md#rights"

static const char *explained(const struct relock_script *script, const char *error)
{
    static char why[RELOCK_WHY_MAX];

    relock_explain(why, script, error);
    return why;
}

/* The number of the script's line that contains this text. */
static unsigned line_with(const struct relock_script *script, const char *text)
{
    const char *at = strstr(script->body, text);
    unsigned line = 1;

    assert_non_null(at);
    for (const char *c = script->body; c < at; c++)
        line += *c == '\n';
    return line;
}

/* The formats of Redis 6.2, Redis 7.0 and later versions; Valkey has the last one. */
static void each_server_denies(const struct relock_script *script, const char *call,
                               const char *before_7_2, const char *since_7_2, const char *why)
{
    unsigned line = line_with(script, call);
    char error[512];

    snprintf(error, sizeof(error),
             "ERR Error running script (call to f_" SHA "): @user_script:%u: @user_script: %u: %s",
             line, line, before_7_2);
    assert_int_equal(relock_refusal_of(error), RELOCK_REFUSED_USER);
    assert_string_equal(explained(script, error), why);
    snprintf(error, sizeof(error), "ERR %s script: " SHA ", on @user_script:%u.", before_7_2, line);
    assert_int_equal(relock_refusal_of(error), RELOCK_REFUSED_USER);
    assert_string_equal(explained(script, error), why);
    snprintf(error, sizeof(error),
             "ERR ACL failure in script: %s script: " SHA ", on @user_script:%u.", since_7_2, line);
    assert_int_equal(relock_refusal_of(error), RELOCK_REFUSED_USER);
    assert_string_equal(explained(script, error), why);
}

static void a_command_that_a_script_may_not_run_is_named_with_the_script(void **state)
{
    (void)state;

    each_server_denies(
        &relock_script_unlock, "'hexists'",
        "The user executing the script can't run this command or subcommand",
        "User locker has no permissions to run the 'hexists' command",
        "NOPERM: this user may not run 'hexists', which the script unlock.lua needs" SEE);
}

static void a_command_whose_key_or_channel_is_denied_is_named(void **state)
{
    (void)state;

    each_server_denies(
        &relock_script_fair_lock, "'lindex'",
        "The user executing the script can't access at least one of the keys mentioned in the "
        "command arguments",
        "No permissions to access a key",
        "NOPERM: this user may not access the key of 'lindex', which the script fair_lock.lua "
        "needs" SEE);
    each_server_denies(
        &relock_script_unlock, "'publish'",
        "The user executing the script can't publish to the channel mentioned in the command",
        "No permissions to access a channel",
        "NOPERM: this user may not use the channel of 'publish', which the script unlock.lua "
        "needs" SEE);
}

static void an_error_caught_by_a_script_is_named_without_a_line(void **state)
{
    static const struct relock_script *const scripts[] = {
        &relock_script_lock,      &relock_script_fair_lock,  &relock_script_fenced_lock,
        &relock_script_read_lock, &relock_script_write_lock,
    };

    (void)state;

    for (size_t i = 0; i < COUNT(scripts); i++) {
        char why[128];

        snprintf(why, sizeof(why),
                 "NOPERM: this user may not run 'pexpire', which the script %s.lua needs" SEE,
                 scripts[i]->name);
        assert_string_equal(explained(scripts[i], "ERR The user executing the script can't run "
                                                  "this command or subcommand"),
                            why);
    }
}

/* Otherwise the line number of an error would not identify the command. */
static void no_line_of_a_script_has_two_commands(void **state)
{
    (void)state;

    for (size_t i = 0; relock_scripts[i]; i++) {
        const char *at = relock_scripts[i]->body;

        while ((at = strstr(at, "call('"))) {
            const char *next = strstr(++at, "call('");

            if (next && !memchr(at, '\n', (size_t)(next - at)))
                fail_msg("%s.lua: %.60s", relock_scripts[i]->name, at);
        }
        assert_null(strstr(relock_scripts[i]->body, "call(\n"));
        assert_null(strstr(relock_scripts[i]->body, "call(\""));
    }
}

static void a_line_that_has_no_command_or_is_not_there_names_none(void **state)
{
    static const char *const lines[] = {"1", "999999", "18446744073709551617", "0", "-1", "x"};

    (void)state;

    for (size_t i = 0; i < COUNT(lines); i++) {
        char error[160];

        snprintf(error, sizeof(error), "NOPERM no, on @user_script:%s.", lines[i]);
        assert_non_null(strstr(explained(&relock_script_inspect, error),
                               "may not run a command, which the script inspect.lua needs"));
    }
}

static void a_right_denied_outside_scripts_is_quoted_from_the_server(void **state)
{
    (void)state;

    assert_string_equal(explained(&relock_script_lock, "NOPERM No permissions to access a key"),
                        "NOPERM No permissions to access a key" SEE);
    assert_string_equal(explained(NULL, "NOPERM no channel"), "NOPERM no channel" SEE);
}

static void a_server_of_another_kind_is_named_by_its_kind(void **state)
{
    (void)state;

    assert_non_null(strstr(explained(&relock_script_lock, "MOVED 12182 127.0.0.1:7001"),
                           "MOVED 12182 127.0.0.1:7001: this is a node of a cluster"));
    assert_non_null(strstr(explained(NULL, "ASK 12182 127.0.0.1:7001"), "a node of a cluster"));
    assert_non_null(strstr(explained(&relock_script_lock,
                                     "READONLY You can't write against a read only replica. "
                                     "script: " SHA ", on @user_script:5."),
                           "READONLY: this is a replica"));
    assert_non_null(strstr(explained(&relock_script_lock,
                                     "ERR Error running script (call to f_" SHA "): "
                                     "@user_script:21: @user_script: 21: -READONLY You can't "
                                     "write against a read only replica."),
                           "READONLY: this is a replica"));
}

static void a_key_of_another_type_is_told_as_another_use_of_the_name(void **state)
{
    (void)state;

    assert_non_null(strstr(explained(&relock_script_lock,
                                     "WRONGTYPE Operation against a key holding the wrong kind of "
                                     "value script: " SHA ", on @user_script:5."),
                           "WRONGTYPE: another kind of lock, or other data, has this name"));
    assert_non_null(
        strstr(explained(&relock_script_lock, "ERR Error running script (call to f_" SHA "): "
                                              "@user_script:21: WRONGTYPE Operation against a key"),
               "WRONGTYPE: another kind of lock, or other data, has this name"));
}

static void a_cluster_that_needs_help_says_which(void **state)
{
    static const char *const half_moved[] = {
        "TRYAGAIN Multiple keys request during rehashing of slot",
        ("ERR Script attempted to access a non local key in a cluster node script: " SHA),
        "ASK 12182 127.0.0.1:7001",
    };

    (void)state;

    assert_string_equal(explained(&relock_script_lock, "CLUSTERDOWN Hash slot not served"),
                        "CLUSTERDOWN Hash slot not served: a slot has no master that runs: start "
                        "one, or assign the slot (redis-cli --cluster fix)");
    for (size_t i = 0; i < COUNT(half_moved); i++)
        assert_non_null(strstr(explained(&relock_script_fair_lock, half_moved[i]),
                               ": the slot is half moved, and the keys of the lock are at two "
                               "nodes: complete the move, or abandon it"));
}

static void everything_else_stays_as_it_is(void **state)
{
    static const char *const errors[] = {
        "",
        "ERR",
        "NOAUTH Authentication required.",
        "ERR something about a key script: " SHA ", on @user_script:5.",
        "MOVEDX 1",
    };

    (void)state;

    for (size_t i = 0; i < COUNT(errors); i++)
        assert_string_equal(explained(&relock_script_lock, errors[i]), errors[i]);
}

/* ---- what locks do without ----------------------------------------------------------------- */

static void each_missing_right_is_logged_once(void **state)
{
    struct log *log = log_new();
    const struct relock_log to_log = {.level = RELOCK_LOG_DEBUG, .sink = log_write, .arg = log};
    struct relock_counts counts = {0};
    char label[] = "h:6379";
    struct relock_server server = {.label = label, .log = &to_log, .counts = &counts};

    (void)state;

    for (int i = 0; i < 3; i++) {
        relock_explain_extra(&server, RELOCK_EXTRA_KILL, "NOPERM no");
        relock_explain_extra(&server, RELOCK_EXTRA_INFO, "NOPERM no");
        relock_explain_extra(&server, RELOCK_EXTRA_NAME, "NOPERM no");
    }
    assert_int_equal(log_count(log, ""), 3);
    assert_int_equal(log_count_grave(log, RELOCK_LOG_WARNING), 3);
    assert_int_equal(log_count(log, "h:6379: CLIENT KILL: NOPERM no; without it an unanswered"), 1);
    assert_int_equal(log_count(log, "h:6379: CLIENT INFO: NOPERM no; without it an unanswered"), 1);
    assert_int_equal(log_count(log, "h:6379: CLIENT SETNAME: NOPERM no; without it conn"), 1);
    assert_int_equal(log_count(log, SEE), 3);
    log_free(log);
}

static void a_granted_right_is_not_missing(void **state)
{
    (void)state;

    assert_true(relock_explain_is_missing("NOPERM this user"));
    assert_false(relock_explain_is_missing("NOPERM this user has no permissions to access one of "
                                           "the channels used as arguments"));
    assert_false(relock_explain_is_missing("NOPERM No permissions to access a channel"));
    assert_true(relock_explain_is_missing("ERR unknown command 'CLIENT'"));
    assert_true(relock_explain_is_missing("ERR Unknown subcommand or wrong number of arguments"));
    assert_false(relock_explain_is_missing("BUSY Redis is busy running a script."));
    assert_false(relock_explain_is_missing("LOADING Redis is loading the dataset in memory"));
    assert_true(relock_explain_is_missing("ERR unsupported command 'CLIENT'"));
    assert_true(relock_explain_is_missing("invalid request"));
    assert_false(relock_explain_is_missing("NOAUTH Authentication required."));
    assert_false(relock_explain_is_missing("OOM command not allowed"));
    assert_false(
        relock_explain_is_missing("READONLY You can't write against a read only replica."));
    assert_false(relock_explain_is_missing("ERR max number of clients reached"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_that_a_script_may_not_run_is_named_with_the_script),
        cmocka_unit_test(a_command_whose_key_or_channel_is_denied_is_named),
        cmocka_unit_test(an_error_caught_by_a_script_is_named_without_a_line),
        cmocka_unit_test(no_line_of_a_script_has_two_commands),
        cmocka_unit_test(a_line_that_has_no_command_or_is_not_there_names_none),
        cmocka_unit_test(a_right_denied_outside_scripts_is_quoted_from_the_server),
        cmocka_unit_test(a_server_of_another_kind_is_named_by_its_kind),
        cmocka_unit_test(a_key_of_another_type_is_told_as_another_use_of_the_name),
        cmocka_unit_test(a_cluster_that_needs_help_says_which),
        cmocka_unit_test(everything_else_stays_as_it_is),
        cmocka_unit_test(each_missing_right_is_logged_once),
        cmocka_unit_test(a_granted_right_is_not_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
