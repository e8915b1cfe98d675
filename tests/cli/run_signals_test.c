/* relock run: signals, and a tool that is killed. */
#include "cli/tool.h"

#include <signal.h>
#include <string.h>

/* Counts what it hears, and ends by SIGTERM. */
#define LISTENER                                                                \
    "trap 'n=$((n+1)); echo heard $n' INT; trap 'echo total $n; exit 3' TERM; " \
    "echo started; while :; do sleep 0.05; done"

/* While the tool stands still, it forwards nothing. Two signals at the same time could count as
 * one. */
static void interrupt(struct tool *tool, bool on_terminal)
{
    tool_signal(tool, SIGSTOP);
    if (on_terminal)
        tool_type(tool, "\003");
    else
        tool_signal_group(tool, SIGINT);
    let_pass(100);
    tool_signal(tool, SIGCONT);
}

static void hears_it_once(struct fixture *f, struct tool *tool, bool on_terminal)
{
    assert_true(tool_says(tool, "started"));
    interrupt(tool, on_terminal);
    assert_true(tool_says(tool, "heard 1"));
    tool_signal(tool, SIGTERM); /* SIGINT has the lower number, so the tool reads it first */
    assert_int_equal(tool_wait(tool), 3);
    assert_non_null(strstr(tool_out(tool), "total 1"));
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void ctrl_c_reaches_the_command_once_and_the_lock_is_released(void **state)
{
    struct fixture *f = *state;

    hears_it_once(f, tool_start(f, "run", "orders", "sh", "-c", LISTENER), false);
}

static void on_a_terminal_too(void **state)
{
    struct fixture *f = *state;
    const char *const words[] = {"run", "orders", "sh", "-c", LISTENER, NULL};

    hears_it_once(f, tool_start_words(f, true, words), true);
}

static bool are_all_held(void *arg)
{
    return probe_n_keys(arg) == 1001;
}

/* The tool asks Redis for the ids of all these holds first. The terminal does not repeat the
 * signal for the command. */
static void ctrl_c_just_before_the_command_starts_is_heard(void **state)
{
    struct fixture *f = *state;
    const char *const words[] = {"run",
                                 "outer",
                                 "--",
                                 "sh",
                                 "-c",
                                 "trap : INT; " RELOCK_TOOL " run --plain $(seq 1000) -- sh -c "
                                 "'echo started; sleep 600'; echo status $?",
                                 NULL};
    struct tool *tool = tool_start_words(f, true, words);

    assert_true(wait_until(are_all_held, f->probe, SOON_MS));
    tool_type(tool, "\003");
    assert_true(tool_says(tool, "status 130"));
    assert_int_equal(tool_wait(tool), 0);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void each_signal_is_forwarded_and_the_tool_lives_until_its_command_ends(void **state)
{
    static const int numbers[] = {SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    static const char *const heard[] = {"hup", "quit", "usr1", "usr2"};
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "orders", "sh", "-c",
                                   "trap 'echo hup' HUP; trap 'echo quit' QUIT; "
                                   "trap 'echo usr1' USR1; trap 'echo usr2' USR2; " LISTENER);

    assert_true(tool_says(tool, "started"));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        tool_signal(tool, numbers[i]);
        assert_true(tool_says(tool, heard[i]));
    }
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 1);
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 3);
}

static void no_signal_is_blocked_in_the_command(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "orders", "sleep", "600"); /* a shell would unblock */

    assert_true(probe_wait_key(f->probe, "orders"));
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 128 + SIGTERM);
}

static void if_the_tool_is_killed_the_command_ends_and_the_lease_frees_the_lock(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", tool_lease(), "orders", "sh", "-c",
                                   "echo started; exec sleep 600");

    assert_true(tool_says(tool, "started"));
    tool_signal(tool, SIGKILL);
    assert_int_equal(tool_wait(tool),
                     128 + SIGKILL); /* its output is closed: the command is gone */
    assert_true(probe_wait_no_key(f->probe, "orders", outlast_ms(TOOL_LEASE_MS) + SOON_MS));
}

static void with_on_lost_kill_a_command_that_ignores_sigterm_ends_with_the_tool(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", tool_lease(), "--on-lost", "kill", "orders",
                                   "sh", "-c", "trap '' TERM; echo started; exec sleep 600");

    assert_true(tool_says(tool, "started"));
    tool_signal(tool, SIGKILL);
    assert_int_equal(tool_wait(tool), 128 + SIGKILL);
    assert_true(probe_wait_no_key(f->probe, "orders", outlast_ms(TOOL_LEASE_MS) + SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(ctrl_c_reaches_the_command_once_and_the_lock_is_released),
        TOOL_TEST(on_a_terminal_too),
        TOOL_TEST(ctrl_c_just_before_the_command_starts_is_heard),
        TOOL_TEST(each_signal_is_forwarded_and_the_tool_lives_until_its_command_ends),
        TOOL_TEST(no_signal_is_blocked_in_the_command),
        TOOL_TEST(if_the_tool_is_killed_the_command_ends_and_the_lease_frees_the_lock),
        TOOL_TEST(with_on_lost_kill_a_command_that_ignores_sigterm_ends_with_the_tool),
    };

    return SERVER_TESTS_RUN(tests);
}
