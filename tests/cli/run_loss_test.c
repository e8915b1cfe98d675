/* relock run: a lock that is lost, and --once-per. */
#include "cli/tool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PERIOD_MS 5000 /* so a machine may stand still for a tenth of it */

#define RUNNING "echo started; while :; do sleep 0.05; done"

/* Ignores SIGTERM, as do its children. */
#define STUBBORN "trap '' TERM; " RUNNING

static size_t count(const char *text, const char *word)
{
    size_t n = 0;

    while ((text = strstr(text, word))) {
        n++;
        text += strlen(word);
    }
    return n;
}

static void a_lost_lock_ends_the_command(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", tool_lease(), "orders", "sh", "-c",
                                   "trap 'echo ending; exit 0' TERM; " RUNNING);

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(tool_wait(tool), 123);
    assert_non_null(strstr(tool_out(tool), "ending"));
    assert_non_null(strstr(tool_err(tool), "its key is gone"));
    /* In words for a shell, and not in those of the library as well. */
    assert_int_equal(count(tool_err(tool), "relock"), 1);
    assert_null(strstr(tool_err(tool), "RELOCK_"));
}

/* The lease would end after the time limit of the test. */
static void a_lock_that_another_program_replaces_ends_the_command(void **state)
{
    struct fixture *f = *state;
    const char *const kinds[] = {"--fair", "--write", "--plain"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct tool *tool = tool_start(f, "run", kinds[i], "--lease", "10m", "orders", "sh", "-c",
                                       "trap 'echo ending; exit 0' TERM; " RUNNING);

        assert_true(tool_says(tool, "started"));
        assert_int_equal(probe_int(f->probe, "ZADD data 1 token"), 1);
        assert_int_equal(probe_int(f->probe, "RENAME data orders"), 0);
        assert_int_equal(tool_wait(tool), 123);
        assert_non_null(strstr(tool_out(tool), "ending"));
        assert_non_null(strstr(tool_err(tool), "another program has replaced its key"));
        assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    }
}

static void a_command_that_ignores_sigterm_is_killed(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", tool_lease(), "--kill-after", "100ms",
                                   "orders", "sh", "-c", STUBBORN);

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(tool_wait(tool), 123);
    assert_non_null(strstr(tool_err(tool), "is killed"));
}

/* Whether the process of this file in /proc is gone, or only its status is left. */
static bool is_gone(void *arg)
{
    FILE *file = fopen(arg, "re");
    char text[256] = "";

    if (!file)
        return true;
    (void)!fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    return strstr(text, ") Z ") != NULL;
}

/* On a terminal, the tool shares the process group with a neighbour, which it must not end. */
static struct tool *start_on_terminal(struct fixture *f, const char *command)
{
    const char *const words[] = {"run", "outer", "--", "sh", "-c", command, NULL};

    return tool_start_words(f, true, words);
}

static void on_a_terminal_a_loss_ends_all_processes_of_the_command(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = start_on_terminal(
        f, "sleep 600 & neighbour=$!; " RELOCK_TOOL " run orders -- sh -c '"
           "trap : TERM; sh -c \"trap \\\"echo inner ends; exit 0\\\" TERM; " RUNNING
           "\" & wait; wait'; echo status $?; "
           "kill -0 $neighbour && echo the neighbour lives; kill $neighbour");

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_true(tool_says(tool, "inner ends"));
    assert_true(tool_says(tool, "status 123"));
    assert_true(tool_says(tool, "the neighbour lives"));
    assert_int_equal(tool_wait(tool), 0);
}

/* As at the end of a script that has started another program. */
static void on_a_terminal_a_loss_ends_no_process_from_before_the_command(void **state)
{
    struct fixture *f = *state;
    struct tool *tool =
        start_on_terminal(f, "sh -c 'sleep 600 & echo other $!; exec " RELOCK_TOOL
                             " run orders -- sh -c \"" RUNNING "\"'; echo status $?; read line");
    const char *other;
    char path[64];

    assert_true(tool_says(tool, "started"));
    other = strstr(tool_out(tool), "other ") + strlen("other ");
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", strtol(other, NULL, 10));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_true(tool_says(tool, "status 123"));
    assert_false(is_gone(path));
    tool_signal_group(tool, SIGTERM);
    (void)tool_wait(tool);
    assert_true(wait_until(is_gone, path, SOON_MS));
}

/* The parent of the stubborn process ends by SIGTERM, so the tool adopts the process. */
static void on_a_terminal_a_process_that_outlives_the_command_is_killed(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = start_on_terminal(
        f, RELOCK_TOOL " run orders -- sh -c '"
                       "sh -c \"trap \\\"\\\" TERM; " RUNNING
                       "\" & inner=$!; trap \"exit 0\" TERM; echo inner $inner; echo ready; wait'; "
                       "echo status $?; read line");
    const char *inner;
    char path[64];

    assert_true(tool_says(tool, "started"));
    assert_true(tool_says(tool, "ready"));
    inner = strstr(tool_out(tool), "inner ") + strlen("inner ");
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", strtol(inner, NULL, 10));
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_true(tool_says(tool, "status 123"));
    assert_true(wait_until(is_gone, path, SOON_MS));
    tool_type(tool, "\n");
    assert_int_equal(tool_wait(tool), 0);
}

/* Nobody reads stderr before the test types: dd has filled the pipe. */
static void a_loss_ends_the_command_though_nobody_reads_stderr(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = start_on_terminal(
        f, "folder=$(mktemp -d); pipe=$folder/pipe; mkfifo $pipe; exec 3<>$pipe; "
           "dd if=/dev/zero of=$pipe bs=4096 count=999 oflag=nonblock 2>/dev/null; "
           "rm -r $folder; " RELOCK_TOOL
           " run --on-lost kill orders -- sh -c 'echo inner $$; " RUNNING "' 2>&3 & "
           "read line; tr -d '\\000' <&3");
    const char *inner;
    char path[64];

    assert_true(tool_says(tool, "started"));
    inner = strstr(tool_out(tool), "inner ") + strlen("inner ");
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", strtol(inner, NULL, 10));
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_true(wait_until(is_gone, path, SOON_MS));
    tool_type(tool, "\n");
    assert_true(tool_says(tool, "the lock was lost"));
    tool_signal_group(tool, SIGTERM);
    (void)tool_wait(tool);
}

/* In a namespace of processes, where the tool is the first one. */
static void as_process_1_the_tool_reaps_orphans(void **state)
{
    struct fixture *f = *state;
    struct tool *tool =
        tool_start(f, "run", "outer", "--", "unshare", "--user", "--map-root-user", "--pid",
                   "--fork", "--mount-proc", RELOCK_TOOL, "run", "orders", "--", "sh", "-c",
                   "orphan=$(sh -c 'sleep 0.1 >/dev/null & echo $!'); n=0; "
                   "while [ -d /proc/$orphan ] && [ $n -lt 400 ]; do sleep 0.05; n=$((n+1)); done; "
                   "[ -d /proc/$orphan ] && echo left || echo reaped; echo parent $PPID");
    int status = tool_wait(tool);

    if (status != 0 && strstr(tool_err(tool), "unshare"))
        skip(); /* there are no namespaces */
    assert_int_equal(status, 0);
    assert_string_equal(tool_out(tool), "reaped\nparent 1\n");
}

static void with_on_lost_kill_it_is_killed_at_once(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", tool_lease(), "--on-lost", "kill", "orders",
                                   "sh", "-c", STUBBORN);

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(tool_wait(tool), 123);
    assert_non_null(strstr(tool_err(tool), "the command is killed"));
}

static void with_on_lost_warn_it_goes_on(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", tool_lease(), "--on-lost", "warn", "orders",
                                   "sh", "-c", "trap 'echo total; exit 3' TERM; " RUNNING);

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_true(tool_says(tool, "goes on without it"));
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 3);
}

static void a_server_that_goes_away_costs_the_lock(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--lease", tool_lease(), "orders", "sh", "-c",
                                   "trap 'echo total; exit 3' TERM; " RUNNING);

    assert_true(tool_says(tool, "started"));
    server_kill(f->server);
    assert_true(tool_says(tool, "its lease expired"));
    assert_true(tool_says(tool, "total"));
    server_restart(f->server);
    assert_int_equal(tool_wait(tool), 123);
}

/* The lock, and the record of the tool that has had it, which is not there to delete it. */
static void forget(struct fixture *f, const char *name)
{
    assert_int_equal(probe_int(f->probe, "DEL %s", name), 1);
    probe_text(f->probe, "EVAL %s 0",
               "for _, key in ipairs(redis.call('keys', 'relock_waits:*:since')) do "
               "redis.call('del', key) end");
}

/* By then, nothing else shows it. */
static void the_machine_that_ran_the_job_is_shown(void **state)
{
    struct fixture *f = *state;
    char host[256], holder[300];
    struct tool *tool;

    assert_int_equal(gethostname(host, sizeof(host)), 0);
    (void)snprintf(holder, sizeof(holder), "\"holder\": \"%s:", host);
    assert_tool(f, 0, "run", "--once-per", "1h", "hourly", "true");
    tool = tool_start(f, "status", "--json", "hourly");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), holder));
    assert_null(strstr(tool_out(tool), "\"held_ms\": null"));
    forget(f, "hourly");
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
    forget(f, "hourly");
}

static const char *period(void)
{
    static char text[32];

    (void)snprintf(text, sizeof(text), "%llums", (unsigned long long)slow_ms(PERIOD_MS));
    return text;
}

/* Its lease is nine tenths of the period, and a tenth for each renewal. */
static void a_command_that_outlasts_its_period_keeps_the_others_out(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--once-per", period(), "hourly", "sh", "-c",
                                   "trap 'exit 5' TERM; " RUNNING);

    assert_true(tool_says(tool, "started"));
    let_pass(slow_ms(PERIOD_MS));
    assert_tool(f, 4, "run", "--once-per", "1h", "-E", "4", "hourly", "echo", "ran");
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 5);
    assert_int_equal(probe_n_keys(f->probe), 0); /* the next period is free at once */
}

static void the_lease_of_a_renewal_does_not_reach_into_the_next_period(void **state)
{
    struct fixture *f = *state;

    assert_tool(f, 0, "run", "--once-per", period(), "hourly", "true");
    assert_in_range(probe_pttl(f->probe, "hourly"), 1, slow_ms(PERIOD_MS) / 10 * 9);
    forget(f, "hourly");
    assert_tool(f, 0, "run", "--once-per", period(), "--lease", "1h", "hourly", "true");
    assert_in_range(probe_pttl(f->probe, "hourly"), 1, slow_ms(PERIOD_MS) / 10 * 9);
    forget(f, "hourly");
}

static void a_failed_command_is_not_repeated_in_its_period(void **state)
{
    struct fixture *f = *state;

    assert_tool(f, 6, "run", "--once-per", "1h", "hourly", "sh", "-c", "exit 6");
    assert_tool(f, 4, "run", "--once-per", "1h", "-E", "4", "hourly", "echo", "ran");
    forget(f, "hourly");
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
        TOOL_TEST(a_lost_lock_ends_the_command),
        TOOL_TEST(a_lock_that_another_program_replaces_ends_the_command),
        TOOL_TEST(a_command_that_ignores_sigterm_is_killed),
        TOOL_TEST(on_a_terminal_a_loss_ends_all_processes_of_the_command),
        TOOL_TEST(on_a_terminal_a_loss_ends_no_process_from_before_the_command),
        TOOL_TEST(on_a_terminal_a_process_that_outlives_the_command_is_killed),
        TOOL_TEST(a_loss_ends_the_command_though_nobody_reads_stderr),
        TOOL_TEST(as_process_1_the_tool_reaps_orphans),
        TOOL_TEST(with_on_lost_kill_it_is_killed_at_once),
        TOOL_TEST(with_on_lost_warn_it_goes_on),
        TOOL_TEST(a_server_that_goes_away_costs_the_lock),
        TOOL_TEST(the_machine_that_ran_the_job_is_shown),
        TOOL_TEST(once_per_period_one_machine_runs_the_command),
        TOOL_TEST(a_command_that_outlasts_its_period_keeps_the_others_out),
        TOOL_TEST(the_lease_of_a_renewal_does_not_reach_into_the_next_period),
        TOOL_TEST(a_failed_command_is_not_repeated_in_its_period),
        TOOL_TEST(a_command_that_did_not_start_leaves_the_period_to_others),
    };

    return SERVER_TESTS_RUN(tests);
}
