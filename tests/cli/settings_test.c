/* The settings of the tool: passwords that nobody sees, and colours. */
#include "cli/tool.h"
#include "support/actor.h"
#include "support/peer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 30000
#define USER "locker"

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* One run as this user, with these variables, which may be NULL. */
static int run_with(struct fixture *f, const char *password, const char *file)
{
    struct tool *tool;
    int status;

    assert_int_equal(setenv("RELOCK_USER", USER, 1), 0);
    if (password)
        assert_int_equal(setenv("RELOCK_PASSWORD", password, 1), 0);
    if (file)
        assert_int_equal(setenv("RELOCK_PASSWORD_FILE", file, 1), 0);
    tool = tool_start(f, "run", "orders", "true");
    status = tool_wait(tool);
    unsetenv("RELOCK_USER");
    unsetenv("RELOCK_PASSWORD");
    unsetenv("RELOCK_PASSWORD_FILE");
    assert_null(strstr(tool_err(tool), "secret"));
    return status;
}

/* The tool fails because of its settings. `wanted` is in what it says, and `library` is not. */
static void assert_says(struct tool *tool, const char *wanted, const char *library)
{
    assert_int_equal(tool_wait(tool), 125);
    if (!strstr(tool_err(tool), wanted) || strstr(tool_err(tool), library) ||
        strstr(tool_err(tool), "cannot connect"))
        fail_msg("%s: %s", wanted, tool_err(tool));
}

static void a_password_comes_from_a_variable_or_a_file(void **state)
{
    struct fixture *f = *state;
    char path[] = "/tmp/relock-password-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    write_file(path, "secret\r\na second line\n");
    assert_true(probe_make_user(f->probe, USER, "secret", "~* &* +@all"));
    assert_int_equal(run_with(f, NULL, NULL), 125);
    assert_int_equal(run_with(f, "wrong", NULL), 125);
    assert_int_equal(run_with(f, "secret", NULL), 0);
    assert_int_equal(run_with(f, NULL, path), 0);
    assert_int_equal(setenv("RELOCK_USER", USER, 1), 0);
    assert_tool(f, 0, "run", "--password-file", path, "orders", "true");
    assert_says(tool_start(f, "run", "--password-file", "/no/such/file", "orders", "true"),
                "/no/such/file: No such file or directory", "WRONGPASS");
    assert_says(tool_start(f, "run", "--password-file", "/tmp", "orders", "true"),
                "/tmp: Is a directory", "WRONGPASS");
    write_file(path, "\nsecret\n");
    assert_says(tool_start(f, "run", "--password-file", path, "orders", "true"),
                "its first line is empty", "WRONGPASS");
    unsetenv("RELOCK_USER");
    unlink(path);
    assert_int_equal(probe_int(f->probe, "ACL DELUSER " USER), 1);
}

/* As files of variables set them: RELOCK_PASSWORD=${PASSWORD:-}. */
static void an_empty_variable_is_not_set(void **state)
{
    static const char *const names[] = {
        "RELOCK_USER",          "RELOCK_PASSWORD",          "RELOCK_PASSWORD_FILE",
        "RELOCK_SENTINEL_USER", "RELOCK_SENTINEL_PASSWORD", "RELOCK_TLS_CERT_FILE",
        "RELOCK_TLS_KEY_FILE",  "RELOCK_TLS_SERVER_NAME",   "RELOCK_TLS_CA_FILE"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct tool *tool;

        assert_int_equal(setenv(names[i], "", 1), 0);
        tool = tool_start(f, "run", "orders", "echo", "ran");
        if (tool_wait(tool) != 0)
            fail_msg("%s: %s", names[i], tool_err(tool));
        unsetenv(names[i]);
    }
}

static void wrong_settings_are_named_as_the_tool_names_them(void **state)
{
    static const struct {
        const char *variable, *value, *url, *wanted, *library;
    } runs[] = {
        {"RELOCK_TLS_CERT_FILE", "f", "redis://h", "RELOCK_TLS_CERT_FILE is set", "tls_cert"},
        {"RELOCK_TLS_SERVER_NAME", "h", "redis://h", "RELOCK_TLS_SERVER_NAME is set", "tls_"},
        {"RELOCK_TLS_KEY_FILE", "f\n", "rediss://h", "RELOCK_TLS_KEY_FILE ends with a line break",
         "tls_"},
        {"RELOCK_USER", USER, "redis://h", "set RELOCK_PASSWORD or --password-file", "the option"},
        {"RELOCK_SENTINEL_USER", USER, "redis+sentinel://h/m", "set RELOCK_SENTINEL_PASSWORD",
         "sentinel_"},
        {"RELOCK_USER", "", "unix:///s?username=u", "by RELOCK_USER and RELOCK_PASSWORD",
         "the option"},
        {"RELOCK_USER", "", "redis://h:1,h:2", "redis+cluster://", "RELOCK_E"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        assert_int_equal(setenv(runs[i].variable, runs[i].value, 1), 0);
        assert_says(tool_start(f, "run", "--url", runs[i].url, "orders", "true"), runs[i].wanted,
                    runs[i].library);
        unsetenv(runs[i].variable);
    }
    assert_says(tool_start(f, "run", "--lease", "10ms", "orders", "true"),
                "--lease: at least 30ms; see `relock run --help`", "watchdog");
    assert_says(tool_start(f, "run", "--lease", "0", "orders", "true"), "--lease", "watchdog");
}

static int run_set(struct fixture *f, const char *variable, const char *value, const char *said)
{
    struct tool *tool;

    assert_int_equal(setenv(variable, value, 1), 0);
    tool = tool_start(f, "run", "-n", "orders", "sh", "-c",
                      "echo started; while :; do sleep 0.05; done");
    unsetenv(variable);
    assert_true(tool_says(tool, said));
    if (strcmp(said, "started") == 0) {
        assert_int_equal(probe_int(f->probe, "EXISTS shop:orders"), 1);
        tool_signal(tool, SIGTERM);
    }
    return tool_wait(tool);
}

static void variables_set_what_the_messages_recommend(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(run_set(f, "RELOCK_NAME_PREFIX", "shop:", "started"), 128 + SIGTERM);
    assert_int_equal(setenv("RELOCK_REPLICA_TIMEOUT", "100ms", 1), 0);
    assert_int_equal(run_set(f, "RELOCK_MIN_REPLICAS", "1", "too few replicas"), 125);
    unsetenv("RELOCK_REPLICA_TIMEOUT");
    assert_int_equal(run_set(f, "RELOCK_MIN_REPLICAS", "-1", "RELOCK_MIN_REPLICAS: `-1` is no"),
                     125);
    assert_int_equal(run_set(f, "RELOCK_RECHECK", "soon", "RELOCK_RECHECK: `soon` is no time"),
                     125);
    assert_int_equal(run_set(f, "RELOCK_COMMAND_TIMEOUT", "0", "RELOCK_COMMAND_TIMEOUT: at"), 125);
}

static void a_name_in_other_use_is_told_as_that(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    tool = tool_start(f, "run", "--plain", "orders", "true");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "another kind of lock, or other data, has this name"));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

/* The library logs why it was not acquired, alone or as a member of a multi lock. */
static void assert_keeps_name(struct fixture *f, const char *name, const char *other)
{
    struct tool *tool;

    assert_true(peer_lock(f->probe, name, PEER, LEASE_MS));
    tool = other ? tool_start(f, "run", "--plain", name, other, "--", "true")
                 : tool_start(f, "run", "--plain", name, "--", "true");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), ": not acquired: "));
    if (strstr(tool_err(tool), "RELOCK_"))
        fail_msg("%s: %s", name, tool_err(tool));
    assert_true(peer_unlock(f->probe, name, PEER));
}

static void the_name_of_a_lock_is_no_setting(void **state)
{
    assert_keeps_name(*state, "command_timeout_ms", NULL);
    assert_keeps_name(*state, "the min_replicas of jobs", NULL);
    assert_keeps_name(*state, "recheck_ms", "jobs");
    assert_keeps_name(*state, "jobs/recheck_ms/5", "jobs/other");
}

/* The tool closes a cycle of waits, and the library's line lists the locks of the others. */
static void the_name_of_a_lock_in_a_deadlock_is_no_setting(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "shop", .deadlock_ms = 100});
    struct relock_lock *first = fixture_lock(f, client, "min_replicas");
    struct relock_lock *last = fixture_lock(f, client, "recheck_ms");
    struct actor *actor = actor_start();
    struct tool *tool, *look = NULL;

    assert_true(peer_lock(f->probe, "n", PEER, LEASE_MS));
    assert_int_equal(actor_lock(actor, last), RELOCK_OK);
    tool = tool_start(f, "run", "min_replicas", "n", "recheck_ms", "--", "true");
    assert_true(probe_wait_in_line(f->probe, "n", 1));
    actor_begin_lock(actor, first);
    while (!look || !strstr(tool_out(look), "shop")) {
        look = tool_start(f, "waiters", "--nested");
        assert_int_equal(tool_wait(look), 0);
    }
    assert_true(peer_unlock(f->probe, "n", PEER));
    assert_int_equal(tool_wait(tool), 125);
    if (!strstr(tool_err(tool), "this owner holds min_replicas, for which client shop waits, who "
                                "holds recheck_ms; "))
        fail_msg("%s", tool_err(tool));
    assert_int_equal(actor_result(actor), RELOCK_OK);
    assert_int_equal(actor_unlock(actor, first), RELOCK_OK);
    assert_int_equal(actor_unlock(actor, last), RELOCK_OK);
    assert_true(wait_for_no_keys(f->probe));
}

/* Unless a server runs there. */
static void a_server_that_nobody_named_is_called_the_default(void **state)
{
    struct fixture *f = *state;
    struct tool *tool =
        tool_start(f, "run", "orders", "env", "RELOCK_URL=", "RELOCK_TLS_CA_FILE=", RELOCK_TOOL,
                   "status", "orders");

    if (tool_wait(tool) != 125)
        fixture_skip();
    assert_non_null(strstr(tool_err(tool), "this is the default server: set --url or RELOCK_URL"));
}

static struct tool *status_of(struct fixture *f, bool on_terminal)
{
    const char *const words[] = {"status", "orders", NULL};
    struct tool *tool = tool_start_words(f, on_terminal, words);

    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "held"));
    return tool;
}

static void colours_are_for_terminals(void **state)
{
    struct fixture *f = *state;

    unsetenv("NO_COLOR");
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_non_null(strstr(tool_out(status_of(f, true)), "\033["));
    assert_null(strstr(tool_out(status_of(f, false)), "\033["));
    assert_int_equal(setenv("NO_COLOR", "", 1), 0);
    assert_non_null(strstr(tool_out(status_of(f, true)), "\033["));
    assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
    assert_null(strstr(tool_out(status_of(f, true)), "\033["));
    unsetenv("NO_COLOR");
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(a_password_comes_from_a_variable_or_a_file),
        TOOL_TEST(an_empty_variable_is_not_set),
        TOOL_TEST(wrong_settings_are_named_as_the_tool_names_them),
        TOOL_TEST(variables_set_what_the_messages_recommend),
        TOOL_TEST(a_name_in_other_use_is_told_as_that),
        TOOL_TEST(the_name_of_a_lock_in_a_deadlock_is_no_setting),
        TOOL_TEST(the_name_of_a_lock_is_no_setting),
        TOOL_TEST(a_server_that_nobody_named_is_called_the_default),
        TOOL_TEST(colours_are_for_terminals),
    };

    return SERVER_TESTS_RUN(tests);
}
