/* relock status, list, waiters, watch, top, break: what they show of locks, and how they end. */
#include "cli/tool.h"
#include "support/actor.h"
#include "support/peer.h"

#include <signal.h>
#include <string.h>

#define LEASE_MS 30000
#define OTHER_PEER "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:42"

/* A tool that holds the lock until it gets SIGTERM. */
static struct tool *hold(struct fixture *f, const char *kind, const char *name)
{
    struct tool *tool = tool_start(f, "run", kind, name, "sh", "-c", "echo started; sleep 600");

    assert_true(tool_says(tool, "started"));
    return tool;
}

static void end(struct tool *holder)
{
    tool_signal(holder, SIGTERM);
    assert_int_equal(tool_wait(holder), 128 + SIGTERM);
}

static void status_shows_the_holder_and_whether_all_are_held(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = hold(f, "--fenced", "orders"), *tool;

    tool = tool_start(f, "status", "orders");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "orders  fenced  held"));
    assert_non_null(strstr(tool_out(tool), ":")); /* host:pid */
    tool = tool_start(f, "status", "orders", "none");
    assert_int_equal(tool_wait(tool), 1);
    assert_non_null(strstr(tool_out(tool), "free"));
    end(holder);
    assert_tool(f, 1, "status", "orders");
    assert_tool(f, 125, "status");
}

static void json_is_for_programs_whatever_a_name_has(void **state)
{
    struct fixture *f = *state;
    const char *const name = "a\"b\\c\x01\xff\xc3\xa9";
    struct tool *tool;

    assert_true(peer_lock(f->probe, name, PEER, LEASE_MS));
    tool = tool_start(f, "status", "--json", name, "none");
    assert_int_equal(tool_wait(tool), 1);
    assert_true(tool_printed_json(tool));
    assert_non_null(strstr(tool_out(tool), "\"holder_id\": \"" PEER "\""));
    tool = tool_start(f, "list", "--json");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    tool = tool_start(f, "waiters", "--json");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    tool = tool_start(f, "list");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "a\"b\\c\\x01\\xff\xc3\xa9"));
    assert_true(peer_unlock(f->probe, name, PEER));
}

static void list_sorts_and_top_counts(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = hold(f, "--write", "b"), *waiter, *tool;

    assert_true(peer_lock(f->probe, "a", PEER, LEASE_MS));
    waiter = tool_start(f, "run", "--write", "b", "true");
    assert_true(probe_wait_in_line(f->probe, "b", 1));
    tool = tool_start(f, "list");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(strstr(tool_out(tool), "\na") < strstr(tool_out(tool), "\nb"));
    tool = tool_start(f, "top");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(strstr(tool_out(tool), "\nb") < strstr(tool_out(tool), "\na"));
    tool = tool_start(f, "waiters");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "  write  "));
    end(holder);
    assert_int_equal(tool_wait(waiter), 0);
    assert_true(peer_unlock(f->probe, "a", PEER));
}

static void nested_waiters_are_those_with_another_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "shop", .deadlock_ms = 100});
    struct relock_lock *mine = fixture_lock(f, client, "mine");
    struct relock_lock *theirs = fixture_lock(f, client, "theirs");
    struct actor *actor = actor_start();
    struct tool *tool;
    bool is_there = false;

    assert_true(peer_lock(f->probe, "theirs", PEER, LEASE_MS));
    assert_int_equal(actor_lock(actor, mine), RELOCK_OK);
    actor_begin_lock(actor, theirs);
    while (!is_there) {
        tool = tool_start(f, "waiters", "--nested");
        assert_int_equal(tool_wait(tool), 0);
        is_there = strstr(tool_out(tool), "theirs") != NULL;
    }
    assert_non_null(strstr(tool_out(tool), "shop"));
    assert_non_null(strstr(tool_out(tool), PEER));
    tool = tool_start(f, "waiters", "--nested", "--json");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    assert_non_null(strstr(tool_out(tool), "\"behind\": \"" PEER "\""));
    assert_tool(f, 125, "waiters", "--nested", "theirs");
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_int_equal(actor_result(actor), RELOCK_OK);
    assert_int_equal(actor_unlock(actor, theirs), RELOCK_OK);
    assert_int_equal(actor_unlock(actor, mine), RELOCK_OK);
    assert_true(wait_for_no_keys(f->probe));
}

static void watch_prints_each_change(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "watch", "--interval", "20ms", "orders");

    assert_true(tool_says(tool, "free, waiting: 0"));
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_true(tool_says(tool, "held by " PEER ", levels: 1"));
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_true(tool_says(tool, "levels: 2"));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    tool_signal(tool, SIGINT);
    assert_int_equal(tool_wait(tool), 128 + SIGINT);
}

static void a_holder_cannot_write_to_the_terminal(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    probe_text(f->probe, "SET orders %s PX 30000", "\033]0;title\007");
    tool = tool_start(f, "watch", "orders");
    assert_true(tool_says(tool, "held by \\x1b]0;title\\x07"));
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 128 + SIGTERM);
    probe_int(f->probe, "DEL orders");
}

static void break_refuses_without_a_terminal(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    tool = tool_start(f, "break", "orders");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "no terminal"));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void break_asks_on_a_terminal(void **state)
{
    struct fixture *f = *state;
    const char *const words[] = {"break", "orders", NULL};
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    tool = tool_start_words(f, true, words);
    assert_true(tool_says(tool, "[y/N]"));
    tool_type(tool, "n\n");
    assert_int_equal(tool_wait(tool), 1);
    assert_string_equal(probe_only_field(f->probe, "orders"), PEER);
    tool = tool_start_words(f, true, words);
    assert_true(tool_says(tool, "[y/N]"));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_true(peer_lock(f->probe, "orders", OTHER_PEER, LEASE_MS));
    tool_type(tool, "y\n");
    assert_int_equal(tool_wait(tool), 1);
    assert_string_equal(probe_only_field(f->probe, "orders"), OTHER_PEER);
    tool = tool_start_words(f, true, words);
    assert_true(tool_says(tool, "[y/N]"));
    tool_type(tool, "y\n");
    assert_int_equal(tool_wait(tool), 0);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void break_wakes_the_next_one_and_the_holder_loses_the_lock(void **state)
{
    const char *const chosen[] = {"--fair", "--fenced", "--read", "--write", "--plain"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(chosen) / sizeof(*chosen); i++) {
        struct tool *holder = tool_start(f, "run", "--lease", "1s", chosen[i], "orders", "sh", "-c",
                                         "echo started; sleep 600");
        struct tool *waiter;

        assert_true(tool_says(holder, "started"));
        waiter = tool_start(f, "run", strcmp(chosen[i], "--read") == 0 ? "--write" : chosen[i],
                            "orders", "echo", "ran");
        assert_tool(f, 0, "break", "--yes", "orders");
        assert_int_equal(tool_wait(waiter), 0);
        assert_int_equal(tool_wait(holder), 123);
    }
}

static void break_does_not_delete_what_is_no_lock(void **state)
{
    struct fixture *f = *state;

    probe_int(f->probe, "RPUSH orders 1");
    assert_tool(f, 125, "break", "--yes", "orders");
    probe_int(f->probe, "DEL orders");
    probe_int(f->probe, "SET orders text");
    assert_tool(f, 125, "break", "--yes", "orders");
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_tool(f, 0, "break", "--yes", "orders");
}

/* ---- names that have no lock --------------------------------------------------------------- */

static void a_name_with_other_data_is_not_free(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    probe_int(f->probe, "RPUSH orders 1");
    tool = tool_start(f, "status", "none", "orders");
    assert_int_equal(tool_wait(tool), 2);
    assert_non_null(strstr(tool_out(tool), "orders  no lock  blocked"));
    tool = tool_start(f, "run", "--wait", "30s", "orders", "true");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "orders: its key has data that is no lock"));
    tool = tool_start(f, "watch", "orders");
    assert_true(tool_says(tool, "blocked by other data"));
    tool_signal(tool, SIGTERM);
    assert_int_equal(tool_wait(tool), 128 + SIGTERM);
    probe_int(f->probe, "DEL orders");
}

static void a_lock_that_cannot_be_shared_is_shown_and_not_broken(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    probe_int(f->probe, "EVAL %s 1 orders",
              "local ms = redis.call('time')[1] * 1000 + 60000 "
              "redis.call('zadd', KEYS[1], ms, '__write__', ms, "
              "'3Hk9QZ1rC0Vb2yT7wXsAABcDeFgHiJkLmNoPqRsTuV0=') "
              "return redis.call('pexpire', KEYS[1], 60000)");
    tool = tool_start(f, "status", "orders");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "orders  foreign  held   3Hk9QZ1rC0Vb2y"));
    tool = tool_start(f, "run", "--plain", "--wait", "30s", "orders", "true");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "a lock of another library"));
    assert_tool(f, 125, "break", "--yes", "orders");
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
}

/* By its own token, whatever the name. */
static void break_frees_plain_locks_but_no_hash_sums(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = hold(f, "--plain", "orders"), *tool;

    probe_text(f->probe, "SET cached da39a3ee5e6b4b0d3255bfef95601890afd80709 PX 60000");
    tool = tool_start(f, "list");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "orders  plain   held"));
    assert_non_null(strstr(tool_out(tool), "cached  plain?  held"));
    assert_tool(f, 125, "break", "--yes", "cached");
    assert_tool(f, 0, "break", "--yes", "orders");
    assert_int_equal(tool_wait(holder), 123);
    probe_text(f->probe, "SET job-lock:default:x ADDED:2026-11-27T12:00:18.270Z@host."
                         "example.com:577c70f8-dae0-40fe-b5a8-bbac7c74a5eb PX 60000");
    assert_tool(f, 0, "break", "--yes", "job-lock:default:x");
    assert_int_equal(probe_int(f->probe, "DEL cached"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(nested_waiters_are_those_with_another_lock),
        TOOL_TEST(status_shows_the_holder_and_whether_all_are_held),
        TOOL_TEST(json_is_for_programs_whatever_a_name_has),
        TOOL_TEST(list_sorts_and_top_counts),
        TOOL_TEST(watch_prints_each_change),
        TOOL_TEST(a_holder_cannot_write_to_the_terminal),
        TOOL_TEST(break_refuses_without_a_terminal),
        TOOL_TEST(break_asks_on_a_terminal),
        TOOL_TEST(break_wakes_the_next_one_and_the_holder_loses_the_lock),
        TOOL_TEST(break_does_not_delete_what_is_no_lock),
        TOOL_TEST(a_name_with_other_data_is_not_free),
        TOOL_TEST(a_lock_that_cannot_be_shared_is_shown_and_not_broken),
        TOOL_TEST(break_frees_plain_locks_but_no_hash_sums),
    };

    return SERVER_TESTS_RUN(tests);
}
