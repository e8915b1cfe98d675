/* relock run: signals, a tool that is killed, and a lock that is lost. */
#include "cli/tool.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Counts what it hears, and ends by SIGTERM. */
#define LISTENER "trap 'n=$((n+1)); echo heard $n' INT; trap 'echo total $n; exit 3' TERM; " RUNNING

#define RUNNING "echo started; while :; do sleep 0.05; done"

/* Ignores SIGTERM, as do its children. */
#define STUBBORN "trap '' TERM; " RUNNING

#define LEASE_MS 1000

static const char *lease(void)
{
    static char text[32];

    (void)snprintf(text, sizeof(text), "%llums", (unsigned long long)outlast_ms(LEASE_MS));
    return text;
}

static void ctrl_c_reaches_the_command_once_and_the_lock_is_released(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "orders", "sh", "-c", LISTENER);

    assert_true(tool_says(tool, "started"));
    tool_signal_group(tool, SIGINT);
    assert_true(tool_says(tool, "heard 1"));
    tool_signal_group(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 3);
    assert_non_null(strstr(tool_out(tool), "total 1"));
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void on_a_terminal_too(void **state)
{
    struct fixture *f = *state;
    const char *const words[] = {"run", "orders", "sh", "-c", LISTENER, NULL};
    struct tool *tool = tool_start_words(f, true, words);

    assert_true(tool_says(tool, "started"));
    tool_type(tool, "\003");
    assert_true(tool_says(tool, "heard 1"));
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 3);
    assert_non_null(strstr(tool_out(tool), "total 1"));
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void if_the_tool_is_killed_the_command_ends_and_the_lease_frees_the_lock(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", lease(), "orders", "sh", "-c",
                                   "echo started; exec sleep 600");

    assert_true(tool_says(tool, "started"));
    tool_signal(tool, SIGKILL);
    assert_int_equal(tool_wait(tool),
                     128 + SIGKILL); /* its output is closed: the command is gone */
    assert_true(probe_wait_no_key(f->probe, "orders", outlast_ms(LEASE_MS) + SOON_MS));
}

static void a_lost_lock_ends_the_command(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", lease(), "orders", "sh", "-c",
                                   "trap 'echo ending; exit 0' TERM; " RUNNING);

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(tool_wait(tool), 123);
    assert_non_null(strstr(tool_out(tool), "ending"));
    assert_non_null(strstr(tool_err(tool), "its key is gone"));
}

static void a_command_that_ignores_sigterm_is_killed(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", lease(), "--kill-after", "100ms", "orders",
                                   "sh", "-c", STUBBORN);

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(tool_wait(tool), 123);
    assert_non_null(strstr(tool_err(tool), "is killed"));
}

static void with_on_lost_kill_it_is_killed_at_once(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", lease(), "--on-lost", "kill", "orders",
                                   "sh", "-c", STUBBORN);

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(tool_wait(tool), 123);
    assert_non_null(strstr(tool_err(tool), "the command is killed"));
}

static void with_on_lost_warn_it_goes_on(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", lease(), "--on-lost", "warn", "orders",
                                   "sh", "-c", LISTENER);

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_true(tool_says(tool, "goes on without it"));
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 3);
}

static void a_server_that_goes_away_costs_the_lock(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", lease(), "orders", "sh", "-c", LISTENER);

    assert_true(tool_says(tool, "started"));
    server_kill(f->server);
    assert_true(tool_says(tool, "its lease expired"));
    assert_true(tool_says(tool, "total"));
    server_restart(f->server);
    assert_int_equal(tool_wait(tool), 123);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;

    while ((text = strstr(text, word))) {
        n++;
        text += strlen(word);
    }
    return n;
}

static void once_per_period_one_machine_runs_the_command(void **state)
{
    struct fixture *f = *state;
    struct tool *tools[4];
    size_t n = 0;

    for (size_t i = 0; i < 4; i++)
        tools[i] = tool_start(f, "run", "--once-per", "1h", "hourly", "sh", "-c", "echo ran");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(tool_wait(tools[i]), 0);
        n += count(tool_out(tools[i]), "ran");
    }
    assert_int_equal(n, 1);
    assert_in_range(probe_pttl(f->probe, "hourly"), 3200000, 3240000);
    assert_tool(f, 4, "run", "--once-per", "1h", "-E", "4", "hourly", "echo", "ran");
    assert_int_equal(probe_int(f->probe, "DEL hourly"), 1);
}

static void a_command_that_did_not_start_leaves_the_period_to_others(void **state)
{
    struct fixture *f = *state;

    assert_tool(f, 127, "run", "--once-per", "1h", "hourly", "/no/such/command");
    assert_int_equal(probe_n_keys(f->probe), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(ctrl_c_reaches_the_command_once_and_the_lock_is_released),
        TOOL_TEST(on_a_terminal_too),
        TOOL_TEST(if_the_tool_is_killed_the_command_ends_and_the_lease_frees_the_lock),
        TOOL_TEST(a_lost_lock_ends_the_command),
        TOOL_TEST(a_command_that_ignores_sigterm_is_killed),
        TOOL_TEST(with_on_lost_kill_it_is_killed_at_once),
        TOOL_TEST(with_on_lost_warn_it_goes_on),
        TOOL_TEST(a_server_that_goes_away_costs_the_lock),
        TOOL_TEST(once_per_period_one_machine_runs_the_command),
        TOOL_TEST(a_command_that_did_not_start_leaves_the_period_to_others),
    };

    return SERVER_TESTS_RUN(tests);
}
