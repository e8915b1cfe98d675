/* relock status, list, waiters, watch, top, break: what they show of locks, and how they end. */
#include "cli/tool.h"
#include "support/actor.h"
#include "support/listener.h"
#include "support/numbers.h"
#include "support/peer.h"
#include "support/stats.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LEASE_MS 30000
#define SHORT_MS 500
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
    const char *const name = "a\"b\\c\x01\x7f\xc2\x9b\xff\xc3\xa9";
    struct tool *tool;

    assert_true(peer_lock(f->probe, name, PEER, LEASE_MS));
    tool = tool_start(f, "status", "--json", name, "none");
    assert_int_equal(tool_wait(tool), 1);
    assert_true(tool_printed_json(tool));
    assert_non_null(strstr(tool_out(tool), "\"holder_id\": \"" PEER "\""));
    tool = tool_start(f, "list", "--json");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    assert_non_null(
        strstr(tool_out(tool), "\"a\\\"b\\\\c\\u0001\\u007f\\u009b\xef\xbf\xbd\xc3\xa9\""));
    tool = tool_start(f, "waiters", "--json");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    tool = tool_start(f, "list");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "a\"b\\c\\x01\\x7f\\xc2\\x9b\\xff\xc3\xa9"));
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
    assert_null(strstr(tool_out(tool), " \n"));
    tool = tool_start(f, "top");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(strstr(tool_out(tool), "\nb") < strstr(tool_out(tool), "\na"));
    tool = tool_start(f, "waiters");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "  write  "));
    end(holder);
    assert_int_equal(tool_wait(waiter), 0);
    assert_true(peer_unlock(f->probe, "a", PEER));
    tool = tool_start(f, "list", "");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "relock list: the pattern is empty"));
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

/* ---- semaphores and other numbers ----------------------------------------------------------- */

#define PEER_PERMIT "0123456789abcdef"
#define PEER_PERMIT_HEX "30313233343536373839616263646566"

/* A client takes two of five permits, and a peer one. */
static struct relock_lock *take_permits(struct fixture *f)
{
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "mill"});
    struct relock_lock *lock = fixture_lock_of(f, client, "jobs", relock_semaphore_new);

    assert_result(relock_semaphore_set(lock, 5), RELOCK_OK);
    assert_result(relock_acquire(lock, &(struct relock_how){.permits = 2}, NULL), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DECRBY jobs 1"), 2);
    probe_int(f->probe, "ZADD {jobs}:timeout 922337203685477 " PEER_PERMIT);
    return lock;
}

static void a_semaphore_shows_its_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = take_permits(f);
    struct tool *tool = tool_start(f, "status", "jobs");

    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "semaphore  3 of 5 out  mill and 1 more"));
    assert_non_null(strstr(tool_out(tool), "  2 out       mill "));
    assert_null(strstr(tool_out(tool), " \n"));
    assert_non_null(strstr(tool_out(tool), "\n  " PEER_PERMIT_HEX "             1 out       "));
    tool = tool_start(f, "list");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "jobs  semaphore  3 of 5 out  mill and 1 more"));
    assert_null(strstr(tool_out(tool), PEER_PERMIT_HEX));
    tool = tool_start(f, "list", "--json");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    assert_non_null(strstr(tool_out(tool), "\"state\": \"held\""));
    assert_non_null(strstr(tool_out(tool), "\"number\": 2, \"out\": 3, \"permits\": [{\"id\": "));
    assert_non_null(strstr(tool_out(tool),
                           "{\"id\": \"" PEER_PERMIT_HEX "\", \"holder\": \"" PEER_PERMIT_HEX
                           "\", \"permits\": 1, \"held_ms\": null, "
                           "\"lease_ms\": null}], \"library\": null}"));
    assert_result(relock_unlock(lock), RELOCK_OK);
    probe_int(f->probe, "DEL {jobs}:timeout");
    tool = tool_start(f, "status", "--kind", "semaphore", "jobs", "none");
    assert_int_equal(tool_wait(tool), 1);
    assert_non_null(strstr(tool_out(tool), "jobs  semaphore  0 of 4 out"));
    assert_non_null(strstr(tool_out(tool), "none  semaphore  unset"));
    probe_int(f->probe, "DEL jobs");
}

static void top_and_waiters_show_who_wants_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = take_permits(f);
    const struct relock_how how = {.permits = 4, .wait_ms = RELOCK_FOREVER};
    struct actor *actor = actor_start();
    struct tool *tool;

    actor_begin_acquire(actor, lock, &how);
    assert_true(probe_wait_in_line(f->probe, "jobs", 1));
    tool = tool_start(f, "waiters");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "jobs  1      mill    permits  mill and 1 more  waits"));
    tool = tool_start(f, "waiters", "--json", "jobs");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    assert_non_null(strstr(tool_out(tool), "\"for\": \"permits\""));
    assert_true(peer_lock(f->probe, "a", PEER, LEASE_MS));
    tool = tool_start(f, "top");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(strstr(tool_out(tool), "\njobs") < strstr(tool_out(tool), "\na "));
    assert_true(peer_unlock(f->probe, "a", PEER));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(actor_unlock(actor, lock), RELOCK_OK);
    probe_int(f->probe, "DEL jobs {jobs}:timeout");
}

static void a_number_is_what_the_user_says(void **state)
{
    static const struct {
        const char *kind, *value, *shown, *json;
        int status;
    } all[] = {
        {"latch", "3", "go    latch  closed at 3  -", "closed", 0},
        {"latch", NULL, "go    latch  open   -", "open", 1},
        {"unleased", "3", "go    unleased  3 free  -", "free", 1},
        {"unleased", "0", "go    unleased  0 free  -", "held", 0},
        {"unleased", NULL, "go    unleased  unset  -", "unset", 1},
        {"semaphore", "3", "go    semaphore  0 of 3 out  -", "free", 1},
        {"plain", "3", "go    plain  held   3", "held", 0},
    };
    struct fixture *f = *state;
    struct tool *tool;

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        char json[64];

        if (all[i].value)
            probe_text(f->probe, "SET go %s", all[i].value);
        tool = tool_start(f, "status", "--kind", all[i].kind, "go");
        assert_int_equal(tool_wait(tool), all[i].status);
        if (!strstr(tool_out(tool), all[i].shown))
            fail_msg("%s, not %s", tool_out(tool), all[i].shown);
        tool = tool_start(f, "status", "--json", "--kind", all[i].kind, "go");
        assert_int_equal(tool_wait(tool), all[i].status);
        assert_true(tool_printed_json(tool));
        (void)snprintf(json, sizeof(json), "\"state\": \"%s\"", all[i].json);
        assert_non_null(strstr(tool_out(tool), json));
        probe_int(f->probe, "DEL go");
    }
    probe_text(f->probe, "SET go 3");
    tool = tool_start(f, "status", "go");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "go    number?  3      -       -       -  "));
    assert_non_null(strstr(tool_out(tool), "\ngo: the key has only a number. It may be a counter, "
                                           "or what --kind says:\n"
                                           "  --kind semaphore  3 permits, all free\n"
                                           "  --kind latch      closed at 3\n"));
    tool = tool_start(f, "status", "--json", "go");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    probe_text(f->probe, "SET go -3");
    tool = tool_start(f, "status", "go");
    assert_int_equal(tool_wait(tool), 0);
    assert_null(strstr(tool_out(tool), "--kind semaphore"));
    assert_null(strstr(tool_out(tool), "--kind latch"));
    assert_non_null(strstr(tool_out(tool), "without leases, -3 permits free"));
    assert_tool(f, 125, "status", "--kind", "lock", "go");
    assert_int_equal(probe_int(f->probe, "DEL go"), 1);
}

/* A lock stays a lock, whatever the user says. */
static void a_lock_is_no_latch(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    tool = tool_start(f, "status", "--kind", "latch", "orders");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "orders  reentrant  held"));
    tool = tool_start(f, "break", "--yes", "--kind", "latch", "orders");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "is `reentrant`, and not what --kind says"));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void list_shows_latches_and_semaphores_by_their_names_and_listeners(void **state)
{
    struct fixture *f = *state;
    struct listener *javas, *another;
    struct tool *tool;

    probe_text(f->probe, "MSET start:latch 3 opened:latch 0 semaphore:none 0 semaphore:some 2 hits "
                         "9 go 1 pool 2");
    javas = listener_open(f->server->socket, "redisson_countdownlatch__channel__{go}");
    another = listener_open(f->server->socket, "redisson_sc:{pool}"); /* it wants three, say */
    tool = tool_start(f, "list");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "start:latch     latch?      closed at 3"));
    assert_non_null(strstr(tool_out(tool), "semaphore:none  semaphore?  0 free"));
    assert_null(strstr(tool_out(tool), "opened"));
    assert_null(strstr(tool_out(tool), "some"));
    assert_null(strstr(tool_out(tool), "hits"));
    assert_non_null(strstr(tool_out(tool), "go              latch?      closed at 1"));
    assert_non_null(strstr(tool_out(tool), "pool            semaphore?  2 free"));
    tool = tool_start(f, "top");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(strstr(tool_out(tool), "\npool ") < strstr(tool_out(tool), "\nsemaphore:none "));
    tool = tool_start(f, "status", "--json", "--kind", "latch", "go");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "\"waiting\": 1"));
    listener_close(another);
    listener_close(javas);
    probe_text(f->probe, "FLUSHALL");
}

static void watch_counts_a_latch_and_permits(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "watch", "-n", "20ms", "--kind", "latch", "go");
    struct relock_lock *lock;

    assert_true(tool_says(tool, "open, waiting: 0"));
    probe_text(f->probe, "SET go 2");
    assert_true(tool_says(tool, "closed at 2, waiting: 0"));
    probe_int(f->probe, "DECR go");
    assert_true(tool_says(tool, "closed at 1, waiting: 0"));
    probe_int(f->probe, "DEL go");
    tool_signal(tool, SIGINT);
    assert_int_equal(tool_wait(tool), 128 + SIGINT);

    lock = take_permits(f);
    tool = tool_start(f, "watch", "-n", "20ms", "jobs");
    assert_true(tool_says(tool, "3 of 5 out, by mill and 1 more, waiting: 0"));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(tool_says(tool, "1 of 5 out, by " PEER_PERMIT_HEX ", waiting: 0"));
    tool_signal(tool, SIGINT);
    assert_int_equal(tool_wait(tool), 128 + SIGINT);
    probe_int(f->probe, "DEL jobs {jobs}:timeout");
}

/* In the set of permits that are out, for 20 s from now on; another one goes. */
#define PUT                                                     \
    "local time = redis.call('time') "                          \
    "if ARGV[2] then redis.call('zrem', KEYS[1], ARGV[2]) end " \
    "return redis.call('zadd', KEYS[1], time[1] * 1000 + 20000, ARGV[1])"
#define OTHER_PERMIT "fedcba9876543210"
#define OTHER_PERMIT_HEX "66656463626139383736353433323130"

/* Which permit expires first changes with each renewal. Who has the permits does not. */
static void watch_prints_no_renewals_of_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = take_permits(f);
    struct tool *tool = tool_start(f, "watch", "-n", "20ms", "jobs");

    assert_true(tool_says(tool, "3 of 5 out, by mill and 1 more, waiting: 0"));
    probe_int(f->probe, "EVAL %s 1 {jobs}:timeout " PEER_PERMIT, PUT);
    let_pass(SHORT_MS); /* for further looks */
    probe_int(f->probe, "EVAL %s 1 {jobs}:timeout " OTHER_PERMIT " " PEER_PERMIT, PUT);
    assert_true(tool_says(tool, "3 of 5 out, by " OTHER_PERMIT_HEX " and 1 more, waiting: 0"));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(tool_says(tool, "1 of 5 out, by " OTHER_PERMIT_HEX ", waiting: 0"));
    tool_signal(tool, SIGINT);
    assert_int_equal(tool_wait(tool), 128 + SIGINT);
    assert_null(strstr(tool_out(tool), PEER_PERMIT_HEX));
    probe_int(f->probe, "DEL jobs {jobs}:timeout");
}

/* Somebody has deleted the number. Nobody gets a permit until somebody sets it again. */
static void a_semaphore_without_its_number_is_not_free(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = take_permits(f);
    const char *const commands[] = {"status", "list", "top"};
    struct tool *tool;

    probe_int(f->probe, "DEL jobs");
    for (size_t i = 0; i < 3; i++) {
        tool = tool_start(f, commands[i], i == 0 ? "jobs" : "job*");
        assert_int_equal(tool_wait(tool), 0);
        assert_non_null(strstr(tool_out(tool), "semaphore  3 out of ?  mill and 1 more"));
        assert_non_null(
            strstr(tool_out(tool), "jobs: its number of permits is missing while 3 are out"));
        assert_non_null(strstr(tool_out(tool), "relock run -n --set-permits N jobs -- true\n"));
    }
    tool = tool_start(f, "list", "--json");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    assert_non_null(strstr(tool_out(tool), "\"state\": \"unset\""));
    assert_non_null(strstr(tool_out(tool), "\"number\": null, \"out\": 3, \"permits\": [{"));

    assert_tool(f, 0, "run", "-n", "--set-permits", "5", "jobs", "--", "true");
    tool = tool_start(f, "status", "jobs");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "semaphore  3 of 5 out  mill and 1 more"));
    probe_int(f->probe, "DEL jobs");
    assert_tool(f, 0, "break", "--yes", "jobs");
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* What `status` shows of a semaphore of this name that has lost its number. */
static const char *shown_without_number(struct fixture *f, const char *name)
{
    struct tool *tool;
    char key[64];

    (void)snprintf(key, sizeof(key), "{%s}:timeout", name);
    assert_int_equal(probe_int(f->probe, "ZADD %s 99999999999999 " PEER_PERMIT, key), 1);
    tool = tool_start(f, "status", "--", name);
    assert_int_equal(tool_wait(tool), 0);
    return tool_out(tool);
}

/* Whoever made the key chose the name, and somebody copies the command. */
static void a_command_to_copy_is_quoted_for_the_shell(void **state)
{
    struct fixture *f = *state;

    assert_non_null(strstr(shown_without_number(f, "a'b $(id)"),
                           "relock run -n --set-permits N 'a'\\''b $(id)' -- true\n"));
    assert_non_null(strstr(shown_without_number(f, "a\\x1b"),
                           "relock run -n --set-permits N 'a\\x1b' -- true\n"));
    assert_non_null(strstr(shown_without_number(f, "--jobs"),
                           "relock run -n --set-permits N -- --jobs -- true\n"));
    assert_tool(f, 0, "run", "-n", "--set-permits", "5", "--", "--jobs", "--", "true");
    probe_text(f->probe, "FLUSHALL");
}

/* No quotes make such a name safe to print. */
static void a_command_to_copy_never_names_another_lock(void **state)
{
    struct fixture *f = *state;

    assert_non_null(strstr(shown_without_number(f, "a\x1b\n"),
                           "To set it to N, with its NAME as above:\n"
                           "  relock run -n --set-permits N -- NAME -- true\n"));
    probe_text(f->probe, "FLUSHALL");
}

static void break_takes_permits_back(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = take_permits(f);
    struct tool *tool;

    tool = tool_start(f, "break", "--yes", "--permit", "00000000000000000000000000000000", "jobs");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_err(tool), "this permit is not out"));
    assert_string_equal(probe_text(f->probe, "GET jobs"), "2");
    tool = tool_start(f, "break", "--yes", "--permit", PEER_PERMIT_HEX, "jobs");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_err(tool), "taken back: the permits of one acquire"));
    assert_string_equal(probe_text(f->probe, "GET jobs"), "3");
    assert_int_equal(probe_int(f->probe, "ZCARD {jobs}:timeout"), 2);
    assert_tool(f, 125, "break", "--yes", "--permit", "123", "jobs");
    probe_int(f->probe, "DECRBY jobs 1");
    probe_int(f->probe, "ZADD {jobs}:timeout 922337203685477 " PEER_PERMIT);
    tool = tool_start(f, "break", "--yes", "jobs");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_err(tool), "taken back; the holders were mill and 1 more"));
    assert_string_equal(probe_text(f->probe, "GET jobs"), "5");
    assert_int_equal(probe_int(f->probe, "ZCARD {jobs}:timeout"), 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    tool = tool_start(f, "break", "--yes", "--kind", "semaphore", "jobs");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_err(tool), "no permit is out"));
    assert_int_equal(probe_int(f->probe, "DEL jobs"), 1);
}

static void break_says_that_it_does_not_see_all_permits(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    probe_text(f->probe, "SET jobs 0");
    probe_int(
        f->probe, "EVAL %s 0",
        "for i = 1, 302 do "
        "  redis.call('zadd', '{jobs}:timeout', 922337203685477, ('%016d'):format(i * 1000000)) "
        "end return 1");
    tool = tool_start(f, "break", "--yes", "jobs");
    assert_int_equal(tool_wait(tool), 1);
    assert_non_null(strstr(tool_err(tool), "still out: 2; repeat"));
    assert_int_equal(probe_int(f->probe, "ZCARD {jobs}:timeout"), 2);
    assert_tool(f, 0, "break", "--yes", "jobs");
    assert_string_equal(probe_text(f->probe, "GET jobs"), "302");
    assert_int_equal(probe_int(f->probe, "DEL jobs"), 1);
}

/* Redisson before 3.17 and other libraries. */
static void break_takes_permits_with_ids_of_any_length_back(void **state)
{
    static const char *const ids[] = {"x", PEER "1", PEER "2", "0123456789abcdefg"};
    struct fixture *f = *state;
    struct tool *tool;

    probe_text(f->probe, "SET jobs 0");
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
        probe_int(f->probe, "ZADD {jobs}:timeout 922337203685477 %s", ids[i]);
    tool = tool_start(f, "status", "jobs");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "\n  30313233343536373839616263646566"
                                           "67 "));
    assert_tool(f, 0, "break", "--yes", "--permit", "78", "jobs");
    assert_string_equal(probe_text(f->probe, "GET jobs"), "1");
    tool = tool_start(f, "break", "--yes", "--permit", "", "jobs");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "--permit: the id is empty"));
    tool = tool_start(f, "break", "--yes", "jobs");
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(probe_text(f->probe, "GET jobs"), "4");
    assert_int_equal(probe_int(f->probe, "DEL jobs"), 1);
}

/* Who has got a permit since the question keeps it. */
static void break_takes_only_the_permits_back_that_it_has_shown(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = take_permits(f);
    struct tool *tool = tool_start_words(f, true, (const char *const[]){"break", "jobs", NULL});

    assert_true(tool_says(tool, "jobs has 3 of 5 out, with mill and 1 more"));
    assert_true(tool_says(tool, "Take back all of them? [y/N]"));
    assert_result(relock_acquire(lock, NULL, NULL), RELOCK_OK);
    tool_type(tool, "y\n");
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(probe_text(f->probe, "GET jobs"), "4");
    assert_int_equal(probe_int(f->probe, "ZCARD {jobs}:timeout"), 1);
    assert_int_equal(probe_int(f->probe, "ZREM {jobs}:timeout " PEER_PERMIT), 0); /* the new one */
    (void)relock_unlock(lock);
    (void)relock_unlock(lock);
    probe_int(f->probe, "DEL jobs {jobs}:timeout");
}

static void break_opens_a_latch_and_its_waiters_go_on(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct latch_wait wait = {latch_of(client, "go"), RELOCK_FOREVER, NULL};
    struct actor *actor = actor_start();
    struct tool *tool;

    assert_result(relock_latch_try_set(wait.latch, 3, NULL), RELOCK_OK);
    actor_begin(actor, latch_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    tool = tool_start(f, "break", "--yes", "go");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "is the number 3: of a latch, a semaphore"));
    assert_string_equal(probe_text(f->probe, "GET go"), "3");
    tool = tool_start(f, "break", "--yes", "--kind", "latch", "go");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_err(tool), "deleted; it was closed at 3"));
    assert_result(actor_result(actor), RELOCK_OK);
    tool = tool_start(f, "break", "--yes", "--kind", "latch", "go");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_err(tool), "the latch is open"));
    numbers_free();
}

static void break_of_an_unleased_semaphore_adds_what_the_user_says(void **state)
{
    struct fixture *f = *state;
    const char *const asked[] = {"break", "--kind", "unleased", "--permits", "2", "jobs", NULL};
    struct tool *tool;

    probe_text(f->probe, "SET jobs 0");
    tool = tool_start(f, "break", "--yes", "--kind", "unleased", "jobs");
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "nobody knows which permits are lost; --permits N"));
    assert_tool(f, 125, "break", "--yes", "--permits", "2", "--kind", "latch", "jobs");
    assert_tool(f, 125, "break", "--yes", "--permit", PEER_PERMIT_HEX, "--kind", "latch", "jobs");
    tool = tool_start_words(f, true, asked);
    assert_true(tool_says(tool, "jobs has 0 free"));
    assert_true(tool_says(tool, "Add 2? [y/N]"));
    probe_text(f->probe, "SET jobs 1");
    tool_type(tool, "y\n");
    assert_int_equal(tool_wait(tool), 1); /* another number than the answer was about */
    assert_string_equal(probe_text(f->probe, "GET jobs"), "1");
    assert_tool(f, 0, "break", "--yes", "--kind", "unleased", "--permits", "2", "jobs");
    assert_string_equal(probe_text(f->probe, "GET jobs"), "3");
    assert_int_equal(probe_int(f->probe, "DEL jobs"), 1);
    assert_tool(f, 0, "break", "--yes", "--kind", "unleased", "--permits", "2", "jobs");
    assert_int_equal(probe_n_keys(f->probe), 0); /* none is made */
}

static void break_frees_a_plain_lock_that_is_a_number_if_the_user_says_so(void **state)
{
    struct fixture *f = *state;

    probe_text(f->probe, "SET orders 1 PX 60000");
    assert_tool(f, 125, "break", "--yes", "orders");
    assert_tool(f, 0, "break", "--yes", "--kind", "plain", "orders");
    assert_int_equal(probe_n_keys(f->probe), 0);
    probe_text(f->probe, "SET lock:page da39a3ee5e6b4b0d3255bfef95601890afd80709 PX 60000");
    assert_tool(f, 125, "break", "--yes", "lock:page");
    assert_tool(f, 0, "break", "--yes", "--kind", "plain", "lock:page");
    assert_int_equal(probe_int(f->probe, "EXISTS lock:page"), 0);
    assert_true(wait_for_no_keys(f->probe)); /* a list for waiters of python-redis-lock */
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
        TOOL_TEST(a_semaphore_shows_its_permits),
        TOOL_TEST(top_and_waiters_show_who_wants_permits),
        TOOL_TEST(a_number_is_what_the_user_says),
        TOOL_TEST(a_lock_is_no_latch),
        TOOL_TEST(list_shows_latches_and_semaphores_by_their_names_and_listeners),
        TOOL_TEST(watch_counts_a_latch_and_permits),
        TOOL_TEST(watch_prints_no_renewals_of_permits),
        TOOL_TEST(a_semaphore_without_its_number_is_not_free),
        TOOL_TEST(a_command_to_copy_is_quoted_for_the_shell),
        TOOL_TEST(a_command_to_copy_never_names_another_lock),
        TOOL_TEST(break_takes_permits_back),
        TOOL_TEST(break_says_that_it_does_not_see_all_permits),
        TOOL_TEST(break_takes_permits_with_ids_of_any_length_back),
        TOOL_TEST(break_takes_only_the_permits_back_that_it_has_shown),
        TOOL_TEST(break_opens_a_latch_and_its_waiters_go_on),
        TOOL_TEST(break_of_an_unleased_semaphore_adds_what_the_user_says),
        TOOL_TEST(break_frees_a_plain_lock_that_is_a_number_if_the_user_says_so),
    };

    return SERVER_TESTS_RUN(tests);
}
