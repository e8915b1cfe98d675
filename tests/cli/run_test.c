/* relock run: the command, its status, its environment, and a lock that others hold. */
#include "cli/tool.h"
#include "support/listener.h"
#include "support/peer.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LEASE_MS 30000

static void the_status_is_that_of_the_command(void **state)
{
    struct fixture *f = *state;

    assert_tool(f, 7, "run", "orders", "--", "sh", "-c", "exit 7");
    assert_tool(f, 128 + SIGKILL, "run", "orders", "sh", "-c", "kill -KILL $$");
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_command_that_cannot_run_has_a_status_of_its_own(void **state)
{
    struct fixture *f = *state;

    assert_tool(f, 127, "run", "orders", "--", "/no/such/command");
    assert_tool(f, 126, "run", "orders", "--", "/");
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void wrong_usage_and_no_server_have_a_status_of_their_own(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_tool(f, 125, "run");
    assert_tool(f, 125, "run", "orders");
    assert_tool(f, 125, "run", "--wait", "soon", "orders", "true");
    assert_tool(f, 125, "run", "--fair", "--read", "orders", "true");
    assert_tool(f, 125, "run", "-n", "--url", "unix:///no/such/server", "orders", "true");
    assert_tool(f, 125, "fly");
    tool = tool_start(f, "run", "orders");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "the command is missing"));
    tool = tool_start(f, "--url", "unix:///no/such/server", "list");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "the command is missing before `--url`"));
}

static void a_name_that_no_lock_can_have_is_refused(void **state)
{
    struct fixture *f = *state;
    const char *const runs[][3] = {{"run", "", "true"}, {"status", ""}, {"status", "orders", ""},
                                   {"waiters", ""},     {"watch", ""},  {"break", "", NULL}};
    char longest[4098];

    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        struct tool *tool = tool_start(f, runs[i][0], runs[i][1], runs[i][2]);

        assert_int_equal(tool_wait(tool), 125);
        assert_non_null(strstr(tool_err(tool), "the name of a lock has 1 to 4096 bytes"));
    }
    memset(longest, 'x', sizeof(longest));
    longest[4097] = '\0';
    assert_tool(f, 125, "run", longest, "true");
    longest[4096] = '\0';
    assert_tool(f, 0, "run", longest, "true");
}

/* The name may come from a request. */
static void a_name_cannot_write_to_the_terminal(void **state)
{
    static const char name[] = "a\033]0;title\007\nb", shown[] = "a\\x1b]0;title\\x07\\x0ab: ";
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, name, PEER, LEASE_MS));
    tool = tool_start(f, "run", "-n", name, "true");
    assert_int_equal(tool_wait(tool), 124);
    assert_non_null(strstr(tool_err(tool), shown));
    assert_true(peer_unlock(f->probe, name, PEER));
    assert_int_equal(probe_int(f->probe, "RPUSH %s x", name), 1);
    tool = tool_start(f, "run", "--fair", "-n", name, "true");
    assert_int_equal(tool_wait(tool), 125);
    assert_null(strchr(tool_err(tool), '\033'));
    assert_int_equal(probe_int(f->probe, "DEL %s", name), 1);
    tool = tool_start(f, "run", "--wait", name, "orders", "true");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "`a\\x1b]0;title\\x07\\x0ab` is no time"));
    assert_null(strchr(tool_err(tool), '\033'));
}

static void several_locks_are_held_together(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "b", PEER, LEASE_MS));
    tool = tool_start(f, "run", "-n", "a", "b", "--", "echo", "ran");
    assert_int_equal(tool_wait(tool), 124);
    assert_non_null(strstr(tool_err(tool), "relock run: b: "));
    assert_int_equal(probe_int(f->probe, "EXISTS a"), 0);
    assert_true(peer_unlock(f->probe, "b", PEER));
    tool = tool_start(f, "run", "--fenced", "b", "a", "--", "sh", "-c",
                      "echo started $RELOCK_NAME, $RELOCK_TOKEN; sleep 600");
    assert_true(tool_says(tool, "started b a, 1 1\n"));
    assert_int_equal(probe_int(f->probe, "EXISTS a b"), 2);
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 128 + SIGTERM);
    assert_int_equal(probe_int(f->probe, "EXISTS a b"), 0);
}

static void a_shell_runs_a_command_in_one_word(void **state)
{
    struct fixture *f = *state;
    const char *const runs[][8] = {{"run", "a", "-c", "echo $RELOCK_NAME; exit 7"},
                                   {"run", "-c", "echo $RELOCK_NAME; exit 7", "a", "b"}};
    const char *const said[] = {"a\n", "a b\n"};

    for (size_t i = 0; i < 2; i++) {
        struct tool *tool = tool_start_words(f, false, runs[i]);

        assert_int_equal(tool_wait(tool), 7);
        assert_string_equal(tool_out(tool), said[i]);
    }
    assert_tool(f, 125, "run", "a", "-c");
    assert_tool(f, 125, "run", "a", "-c", "true", "b");
    assert_tool(f, 125, "run", "-c", "true", "a", "--", "true");
    assert_tool(f, 125, "run", "-c", "true");
}

/* As in `relock run orders git -c x=y -- file`. */
static void an_option_of_the_command_is_no_name(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "orders", "sh", "-c", "true", "--", "x");

    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "write `--` before the command"));
    assert_tool(f, 125, "run", "--once-per", "1h", "a", "b", "--", "true");
    assert_tool(f, 125, "run", "--", "--", "true");
    assert_tool(f, 125, "run", "a", "a", "--", "true");
}

/* As in `relock run orders ssh host -- rm file`: the file of another machine. */
static void a_program_is_no_further_name(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "orders", "env", "echo", "--", "echo", "here");

    assert_int_equal(tool_wait(tool), 125);
    assert_string_equal(tool_out(tool), "");
    assert_non_null(strstr(tool_err(tool), "`env` would be the name of a lock"));
    assert_tool(f, 125, "run", "orders", "/bin/sh", "--", "true");
    assert_tool(f, 0, "run", "env", "orders", "--", "true");
    assert_tool(f, 0, "run", "orders", "/bin", "--", "true");
    assert_tool(f, 0, "run", "-c", "true", "orders", "env");
    assert_tool(f, 0, "run", "orders", "--", "env", "--", "true");
}

static void help_and_version_have_short_forms(void **state)
{
    struct fixture *f = *state;
    const char *const runs[][3] = {{"help"}, {"help", "run"}, {"run", "--help"}, {"-V"}};
    const char *const said[] = {"relock COMMAND", "relock run", "relock run", "relock 0."};

    for (size_t i = 0; i < 4; i++) {
        struct tool *tool = tool_start_words(f, false, runs[i]);

        assert_int_equal(tool_wait(tool), 0);
        assert_non_null(strstr(tool_out(tool), said[i]));
    }
    assert_tool(f, 125, "help", "fly");
}

static void closed_standard_descriptors_are_no_connections(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "orders", "sh", "-c",
                                   RELOCK_TOOL " list >&-; echo list: $?; " RELOCK_TOOL
                                               " run inner true <&- >&- 2>&-; "
                                               "echo run: $?");

    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "list: 125\nrun: 0\n");
    assert_string_equal(tool_err(tool), "relock: cannot write to stdout: Bad file descriptor\n");
}

static void what_cannot_be_written_is_a_failure(void **state)
{
    static const char *const words[] = {"--version", "help", "list --help", "list", "acl plain"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        char command[512];
        struct tool *tool;

        snprintf(command, sizeof(command), RELOCK_TOOL " %s >/dev/full", words[i]);
        tool = tool_start(f, "run", "orders", "-c", command);
        assert_int_equal(tool_wait(tool), 125);
        assert_string_equal(tool_err(tool),
                            "relock: cannot write to stdout: No space left on device\n");
    }
}

static void the_command_knows_the_lock(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    tool =
        tool_start(f, "run", "--fenced", "orders", "sh", "-c", "echo $RELOCK_NAME:$RELOCK_TOKEN");
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "orders:1\n");
    tool = tool_start(f, "run", "orders", "sh", "-c", "echo $RELOCK_NAME:$RELOCK_TOKEN");
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "orders:\n");
}

static void the_lock_is_held_while_the_command_runs(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct tool *tool = tool_start(f, "run", "orders", "sh", "-c", "echo started; sleep 600");

    assert_true(tool_says(tool, "started"));
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 128 + SIGTERM);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void each_kind_is_that_of_the_library(void **state)
{
    struct fixture *f = *state;
    const char *const kinds[] = {"--fair", "--fenced", "--read", "--write", "--plain"};
    const char *const types[] = {"hash", "hash", "hash", "hash", "string"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct tool *tool =
            tool_start(f, "run", kinds[i], "orders", "sh", "-c", "echo started; sleep 600");

        assert_true(tool_says(tool, "started"));
        assert_string_equal(probe_text(f->probe, "TYPE orders"), types[i]);
        if (strcmp(kinds[i], "--read") == 0)
            assert_string_equal(probe_text(f->probe, "HGET orders mode"), "read");
        tool_signal(tool, SIGTERM);
        assert_int_equal(tool_wait(tool), 128 + SIGTERM);
    }
}

static void a_lock_of_another_library_is_named_as_there(void **state)
{
    struct fixture *f = *state;
    struct listener *heard = listener_open(f->server->socket, "shop-channel:shop:orders");
    struct tool *tool = tool_start(f, "run", "--like", "spring-integration:shop", "orders", "--",
                                   "sh", "-c", "echo $RELOCK_NAME started; sleep 600");

    assert_true(tool_says(tool, "orders started"));
    assert_string_equal(probe_text(f->probe, "TYPE shop:orders"), "string");
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 128 + SIGTERM);
    assert_true(listener_hears(heard, "shop:orders", SOON_MS));
    listener_close(heard);

    tool = tool_start(f, "run", "--like", "spring", "orders", "true");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "--like: `library` is none of bsm-redislock"));
    assert_null(strstr(tool_err(tool), "relock_plainlock_like"));
    assert_tool(f, 125, "run", "--plain", "--like", "redis-py", "orders", "true");
    assert_tool(f, 125, "run", "--like", "redis-py", "--fair", "orders", "true");

    /* Its key is not the name: what the name has is no obstacle. */
    probe_int(f->probe, "RPUSH orders x");
    probe_int(f->probe, "HSET lock:orders a 1");
    tool = tool_start(f, "run", "--like", "python-redis-lock", "orders", "true");
    assert_int_equal(tool_wait(tool), 125);
    assert_null(strstr(tool_err(tool), "delete the key"));
    assert_non_null(strstr(tool_err(tool), "lock:orders: "));
    probe_int(f->probe, "DEL lock:orders");
    assert_tool(f, 0, "run", "--like", "python-redis-lock", "orders", "true");
    probe_int(f->probe, "DEL orders");
}

static void a_held_lock_has_a_status_that_can_be_chosen(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    tool = tool_start(f, "run", "--wait", "0", "orders", "echo", "ran");
    assert_int_equal(tool_wait(tool), 124);
    assert_string_equal(tool_out(tool), "");
    assert_non_null(strstr(tool_err(tool), "another owner holds the lock"));
    assert_tool(f, 9, "run", "--wait", "2000ms", "-E", "9", "orders", "echo", "ran");
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void a_waiting_tool_runs_the_command_when_it_is_its_turn(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    tool = tool_start(f, "run", "orders", "echo", "ran");
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
}

static void a_waiting_tool_ends_by_ctrl_c_and_leaves_the_line(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    tool = tool_start(f, "run", "orders", "echo", "ran");
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    tool_signal_group(tool, SIGINT);
    assert_int_equal(tool_wait(tool), 128 + SIGINT);
    assert_string_equal(tool_out(tool), "");
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_true(wait_for_no_keys(f->probe));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(the_status_is_that_of_the_command),
        TOOL_TEST(a_command_that_cannot_run_has_a_status_of_its_own),
        TOOL_TEST(wrong_usage_and_no_server_have_a_status_of_their_own),
        TOOL_TEST(a_name_that_no_lock_can_have_is_refused),
        TOOL_TEST(a_name_cannot_write_to_the_terminal),
        TOOL_TEST(several_locks_are_held_together),
        TOOL_TEST(a_shell_runs_a_command_in_one_word),
        TOOL_TEST(an_option_of_the_command_is_no_name),
        TOOL_TEST(a_program_is_no_further_name),
        TOOL_TEST(help_and_version_have_short_forms),
        TOOL_TEST(closed_standard_descriptors_are_no_connections),
        TOOL_TEST(what_cannot_be_written_is_a_failure),
        TOOL_TEST(the_command_knows_the_lock),
        TOOL_TEST(the_lock_is_held_while_the_command_runs),
        TOOL_TEST(each_kind_is_that_of_the_library),
        TOOL_TEST(a_lock_of_another_library_is_named_as_there),
        TOOL_TEST(a_held_lock_has_a_status_that_can_be_chosen),
        TOOL_TEST(a_waiting_tool_runs_the_command_when_it_is_its_turn),
        TOOL_TEST(a_waiting_tool_ends_by_ctrl_c_and_leaves_the_line),
    };

    return SERVER_TESTS_RUN(tests);
}
