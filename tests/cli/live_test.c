/* relock watch, relock top: what they show until Ctrl-C, also while the server is away. */
#include "cli/tool.h"
#include "support/peer.h"

#include <signal.h>
#include <string.h>

#define LEASE_MS 30000
#define COMMAND_TIMEOUT_MS 3000 /* the library's default */

static void watch_prints_an_object_for_each_change(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "watch", "--json", "--interval", "20ms", "orders");

    assert_true(tool_says(tool, "\"holder\": null, \"holder_id\": null"));
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_true(tool_says(tool, "\"holder_id\": \"" PEER "\""));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    tool_signal(tool, SIGINT);
    assert_int_equal(tool_wait(tool), 128 + SIGINT);
}

/* As `relock watch orders | grep -m1 free` in a script. */
static void watch_ends_with_its_reader(void **state)
{
    struct fixture *f = *state;
    struct tool *tool =
        tool_start(f, "run", "other", "-c",
                   RELOCK_TOOL " watch --interval 20ms orders | head -n 1; echo has ended");

    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_says(tool, "has ended"));
}

static void watch_outlives_the_server(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "watch", "--interval", "20ms", "orders");

    assert_true(tool_says(tool, "free, waiting: 0"));
    server_kill(f->server);
    let_pass(COMMAND_TIMEOUT_MS + 1000); /* so its queries fail */
    server_restart(f->server);
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_true(tool_says(tool, "held by " PEER));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 128 + SIGTERM);
}

static void top_shows_news_on_a_terminal_until_ctrl_c(void **state)
{
    struct fixture *f = *state;
    const char *const words[] = {"top", "--interval", "20ms", NULL};
    struct tool *tool;

    assert_true(peer_lock(f->probe, "first", PEER, LEASE_MS));
    tool = tool_start_words(f, true, words);
    assert_true(tool_says(tool, "first"));
    assert_true(peer_lock(f->probe, "second", PEER, LEASE_MS));
    assert_true(tool_says(tool, "second"));
    assert_true(peer_unlock(f->probe, "first", PEER));
    assert_true(peer_unlock(f->probe, "second", PEER));
    tool_type(tool, "\003");
    assert_int_equal(tool_wait(tool), 128 + SIGINT);
}

static void without_a_server_each_says_that_it_failed(void **state)
{
    struct fixture *f = *state;
    const char *const runs[][2] = {
        {"status", "orders"}, {"watch", "orders"}, {"waiters"}, {"list"}, {"top"}, {"bench"},
        {"break", "orders"}};

    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        struct tool *tool =
            tool_start(f, runs[i][0], "--url", "unix:///no/such/server", runs[i][1]);

        assert_int_equal(tool_wait(tool), 125);
        assert_non_null(strstr(tool_err(tool), "cannot connect"));
        assert_string_equal(tool_out(tool), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(watch_prints_an_object_for_each_change),
        TOOL_TEST(watch_ends_with_its_reader),
        TOOL_TEST(watch_outlives_the_server),
        TOOL_TEST(top_shows_news_on_a_terminal_until_ctrl_c),
        TOOL_TEST(without_a_server_each_says_that_it_failed),
    };

    return SERVER_TESTS_RUN(tests);
}
