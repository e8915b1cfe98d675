/* relock run: which failures it waits out, what it says meanwhile, and which waits it refuses. */
#include "cli/tool.h"
#include "support/peer.h"
#include "support/proxy.h"

#include <limits.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 30000
#define SHORT_MS 500
#define CONNECT_MS 1000 /* of the library */
#define NO_ANSWER "no answer to "
#define STARTED "echo started; sleep 600"

static void set_time(const char *variable, uint64_t ms)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%llums", (unsigned long long)ms);
    assert_int_equal(setenv(variable, text, 1), 0);
}

/* ---- outages ------------------------------------------------------------------------------- */

static void a_server_that_is_down_at_the_start_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    server_kill(f->server);
    tool = tool_start(f, "run", "orders", "echo", "ran");
    assert_true(tool_says(tool, "trying again"));
    server_restart(f->server);
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
}

struct attempts {
    struct tool *tool;
    unsigned n;
};

static bool has_failed_so_often(void *arg)
{
    const struct attempts *attempts = arg;
    const char *at = tool_err_now(attempts->tool);
    unsigned n = 0;

    while ((at = strstr(at, "no client was made")) && at++)
        n++;
    return n >= attempts->n;
}

/*
 * After three failures an attempt takes up to eight times as long, but not later ones. Another tool
 * has three quarters of that for each of its attempts: it is the last one to say that the server
 * does not answer.
 */
static void an_outage_at_the_start_slows_down_no_later_reconnect(void **state)
{
    struct fixture *f = *state;
    struct proxy *proxy = proxy_start(f->server, NULL);
    struct tool *tool, *slow;
    struct proxy_rule *held;

    proxy_refuse(proxy, true);
    tool = tool_start(f, "run", "-v", "--url", proxy_url(proxy), "orders", "sh", "-c", STARTED);
    assert_true(wait_until(has_failed_so_often, &(struct attempts){tool, 4}, SOON_MS));
    proxy_refuse(proxy, false);
    assert_true(tool_says(tool, "started"));
    set_time("RELOCK_CONNECT_TIMEOUT", 6 * CONNECT_MS);
    slow = tool_start(f, "run", "--url", proxy_url(proxy), "stock", "sh", "-c", STARTED);
    unsetenv("RELOCK_CONNECT_TIMEOUT");
    assert_true(tool_says(slow, "started"));
    held = proxy_each(proxy, PROXY_HOLD, "HELLO");
    proxy_cut(proxy, "");
    assert_true(tool_says(tool, NO_ANSWER));
    assert_null(strstr(tool_err_now(slow), NO_ANSWER));
    proxy_let_go(held);
    tool_signal(tool, SIGTERM);
    tool_signal(slow, SIGTERM);
    assert_int_equal(tool_wait(tool), 128 + SIGTERM);
    assert_int_equal(tool_wait(slow), 128 + SIGTERM);
    proxy_stop(proxy);
}

static void the_limit_of_the_wait_is_for_connecting_too(void **state)
{
    struct fixture *f = *state;
    uint64_t began_ms = now_ms();
    struct tool *tool;

    server_kill(f->server);
    tool = tool_start(f, "run", "--wait", "500ms", "orders", "echo", "ran");
    assert_int_equal(tool_wait(tool), 125);
    assert_true(now_ms() - began_ms >= SHORT_MS);
    assert_string_equal(tool_out(tool), "");
    server_restart(f->server);
}

static void one_attempt_does_not_wait_for_a_server(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    server_kill(f->server);
    tool = tool_start(f, "run", "-n", "orders", "echo", "ran");
    assert_int_equal(tool_wait(tool), 125);
    assert_null(strstr(tool_err(tool), "trying again"));
    server_restart(f->server);
}

static void ctrl_c_ends_a_tool_that_cannot_connect(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    server_kill(f->server);
    tool = tool_start(f, "run", "orders", "echo", "ran");
    assert_true(tool_says(tool, "trying again"));
    tool_signal_group(tool, SIGINT);
    assert_int_equal(tool_wait(tool), 128 + SIGINT);
    server_restart(f->server);
}

static void a_restart_ends_no_wait(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    set_time("RELOCK_COMMAND_TIMEOUT", SHORT_MS);
    tool = tool_start(f, "run", "orders", "echo", "ran");
    unsetenv("RELOCK_COMMAND_TIMEOUT");
    assert_true(tool_says(tool, "waiting: held by"));
    server_kill(f->server);
    assert_true(tool_says(tool, "trying again"));
    server_restart(f->server);
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
}

static void a_replica_is_waited_for_until_it_is_promoted(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_int_equal(probe_int(f->probe, "REPLICAOF 127.0.0.1 1"), 0);
    tool = tool_start(f, "run", "orders", "echo", "ran");
    assert_true(tool_says(tool, "this is a replica"));
    assert_true(tool_says(tool, "trying again"));
    assert_int_equal(probe_int(f->probe, "REPLICAOF NO ONE"), 0);
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
}

static void a_master_that_becomes_a_replica_ends_no_wait(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    set_time("RELOCK_COMMAND_TIMEOUT", SHORT_MS);
    set_time("RELOCK_RECHECK", SHORT_MS);
    tool = tool_start(f, "run", "orders", "echo", "ran");
    unsetenv("RELOCK_COMMAND_TIMEOUT");
    unsetenv("RELOCK_RECHECK");
    assert_true(tool_says(tool, "waiting: held by"));
    assert_int_equal(probe_int(f->probe, "REPLICAOF 127.0.0.1 1"), 0);
    assert_true(tool_says(tool, "trying again"));
    assert_int_equal(probe_int(f->probe, "REPLICAOF NO ONE"), 0);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_out(tool), "ran\n");
}

/* Where no server answers for names, the system does not know that there is no such name. */
static void a_host_that_does_not_exist_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    struct addrinfo *found;
    struct tool *tool;

    assert_int_equal(setenv("RES_OPTIONS", "timeout:1 attempts:1", 1), 0);
    if (getaddrinfo("no-such-host.invalid", NULL, NULL, &found) != EAI_NONAME)
        skip();
    tool = tool_start(f, "run", "--url", "redis://no-such-host.invalid", "orders", "true");
    assert_int_equal(tool_wait(tool), 125);
    assert_null(strstr(tool_err(tool), "trying again"));
}

/* ---- what it says -------------------------------------------------------------------------- */

/* The id of a plain lock names no client. */
static void a_wait_for_plain_locks_does_not_name_its_own(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    probe_text(f->probe, "SET b other PX 30000");
    tool = tool_start(f, "run", "--plain", "a", "b", "--", "true");
    assert_true(tool_says(tool, "waiting: held by"));
    assert_int_equal(probe_int(f->probe, "EXISTS a"), 1);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    assert_int_equal(tool_wait(tool), 0);
    assert_string_equal(tool_err(tool), "relock run: b: waiting: held by other\n");
}

static void a_wait_says_once_who_holds_the_lock(void **state)
{
    struct fixture *f = *state;
    struct tool *holder = tool_start(f, "run", "orders", "sh", "-c", "echo started; sleep 600");
    char host[HOST_NAME_MAX + 1] = "", wanted[HOST_NAME_MAX + 40];
    struct tool *tool;
    const char *said;

    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    (void)snprintf(wanted, sizeof(wanted), "relock run: orders: waiting: held by %s:", host);
    assert_true(tool_says(holder, "started"));
    tool = tool_start(f, "run", "orders", "echo", "ran");
    assert_true(tool_says(tool, wanted));
    tool_signal(holder, SIGTERM);
    assert_int_equal(tool_wait(holder), 128 + SIGTERM);
    assert_int_equal(tool_wait(tool), 0);
    said = strstr(tool_err(tool), wanted);
    if (!said || strstr(said + strlen(wanted), "waiting"))
        fail_msg("%s", tool_err(tool));
    assert_string_equal(tool_err(holder), "");
}

static void a_quiet_tool_says_nothing_of_a_lock_that_is_held(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    tool = tool_start(f, "run", "-q", "--wait", "700ms", "orders", "echo", "ran");
    assert_int_equal(tool_wait(tool), 124);
    assert_string_equal(tool_err(tool), "");
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

/* ---- locks of ancestors -------------------------------------------------------------------- */

/* Each kind; readers share a lock, so a writer waits for a reader. */
static void a_lock_of_an_ancestor_is_not_waited_for(void **state)
{
    static const char *const kinds[][2] = {{"--fair", "--fair"},
                                           {"--fenced", "--fenced"},
                                           {"--plain", "--plain"},
                                           {"--read", "--write"},
                                           {"--write", "--read"}};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct tool *tool =
            tool_start(f, "run", kinds[i][0], "orders", "--", "sh", "-c",
                       "exec \"$0\" run \"$1\" orders -- echo ran", RELOCK_TOOL, kinds[i][1]);

        assert_int_equal(tool_wait(tool), 125);
        assert_string_equal(tool_out(tool), "");
        assert_non_null(strstr(tool_err(tool), "orders: would wait for ever"));
    }
}

static void a_lock_of_a_distant_ancestor_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "orders", "--", RELOCK_TOOL, "run", "invoices", "--",
                                   RELOCK_TOOL, "run", "stock", "orders", "--", "echo", "ran");

    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "orders: would wait for ever"));
}

/* The list says that the ancestor holds it. Redis does not. */
static void a_lock_that_an_ancestor_has_lost_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "run", "--on-lost", "warn", "orders", "--", "sh", "-c",
                                   "trap go=1 USR1; echo started; "
                                   "while [ -z \"$go\" ]; do sleep 0.05; done; "
                                   "exec " RELOCK_TOOL " run --wait 700ms orders -- echo ran");

    assert_true(tool_says(tool, "started"));
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    tool_signal(tool, SIGUSR1);
    assert_int_equal(tool_wait(tool), 124);
    assert_null(strstr(tool_err(tool), "would wait for ever"));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void the_command_gets_a_list_of_the_holds_without_the_password(void **state)
{
    struct fixture *f = *state;
    const char *scheme = *f->server->tls_url ? "rediss" : "redis";
    int port = *f->server->tls_url ? f->server->tls_port : f->server->port;
    char url[100], wanted[100];
    struct tool *tool;

    assert_true(probe_make_user(f->probe, "locker", "secret", "~* &* +@all"));
    (void)snprintf(url, sizeof(url), "%s://locker:secret@127.0.0.1:%d", scheme, port);
    (void)snprintf(wanted, sizeof(wanted), "\t%s://127.0.0.1:%d\ta b\n", scheme, port);
    tool = tool_start(f, "run", "--url", url, "a b", "c", "--", "sh", "-c",
                      "echo \"$RELOCK_HOLDS\"; echo \"$RELOCK_NAME\"");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), wanted));
    assert_non_null(strstr(tool_out(tool), "\tc\na b c\n"));
    assert_null(strstr(tool_out(tool), "secret"));
    assert_int_equal(probe_int(f->probe, "ACL DELUSER locker"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(a_server_that_is_down_at_the_start_is_waited_for),
        TOOL_TEST(an_outage_at_the_start_slows_down_no_later_reconnect),
        TOOL_TEST(the_limit_of_the_wait_is_for_connecting_too),
        TOOL_TEST(one_attempt_does_not_wait_for_a_server),
        TOOL_TEST(ctrl_c_ends_a_tool_that_cannot_connect),
        TOOL_TEST(a_restart_ends_no_wait),
        TOOL_TEST(a_replica_is_waited_for_until_it_is_promoted),
        TOOL_TEST(a_master_that_becomes_a_replica_ends_no_wait),
        TOOL_TEST(a_host_that_does_not_exist_is_not_waited_for),
        TOOL_TEST(a_wait_for_plain_locks_does_not_name_its_own),
        TOOL_TEST(a_wait_says_once_who_holds_the_lock),
        TOOL_TEST(a_quiet_tool_says_nothing_of_a_lock_that_is_held),
        TOOL_TEST(a_lock_of_an_ancestor_is_not_waited_for),
        TOOL_TEST(a_lock_of_a_distant_ancestor_is_not_waited_for),
        TOOL_TEST(a_lock_that_an_ancestor_has_lost_is_waited_for),
        TOOL_TEST(the_command_gets_a_list_of_the_holds_without_the_password),
    };

    return cmocka_run_group_tests(tests, fixture_start_tcp, fixture_stop);
}
