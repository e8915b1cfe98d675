/* relock doctor, relock bench. */
#include "cli/tool.h"

#include "support/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_MS 60 /* twice for a round trip: longer than the doctor waits for a lock nearby */

static void a_good_server_is_found_to_be_good(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "doctor");

    if (tool_wait(tool) != 0)
        fail_msg("%s", tool_out(tool));
    assert_non_null(strstr(tool_out(tool), "ok    eviction"));
    assert_non_null(strstr(tool_out(tool), "note  persistence"));
    assert_non_null(strstr(tool_out(tool), "ok    fair"));
    assert_non_null(strstr(tool_out(tool), "ok    lease"));
    assert_null(strstr(tool_out(tool), "bad "));
    assert_null(strstr(tool_out(tool), "note  log"));
    tool = tool_start(f, "doctor", "--json");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
}

static void eviction_is_bad(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    probe_text(f->probe, "CONFIG SET maxmemory-policy allkeys-lru");
    probe_text(f->probe, "CONFIG SET maxmemory 1gb");
    tool = tool_start(f, "doctor");
    assert_int_equal(tool_wait(tool), 1);
    probe_text(f->probe, "CONFIG SET maxmemory-policy noeviction");
    probe_text(f->probe, "CONFIG SET maxmemory 0");
    assert_non_null(strstr(tool_out(tool), "bad   eviction"));
    assert_non_null(strstr(tool_out(tool), "-> CONFIG SET maxmemory-policy noeviction"));
}

static void a_missing_right_is_named(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    probe_text(f->probe, "ACL SETUSER default -incr");
    tool = tool_start(f, "doctor");
    assert_int_equal(tool_wait(tool), 1);
    probe_text(f->probe, "ACL SETUSER default +incr");
    assert_non_null(strstr(tool_out(tool), "bad   fenced"));
    assert_non_null(strstr(tool_out(tool), "ok    reentrant"));
    assert_non_null(strstr(tool_out(tool), "incr"));
}

/* Each kind has names of its own, so a doctor of another kind is not in the way. */
static void a_semaphore_of_an_earlier_doctor_is_not_in_the_way(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "doctor", "--kind", "semaphore");

    assert_int_equal(tool_wait(tool), 0);
    probe_text(f->probe, "SET relock:doctor:lease 1"); /* as one of November 2026 did */
    tool = tool_start(f, "doctor");
    if (tool_wait(tool) != 0 || !strstr(tool_out(tool), "ok    lease"))
        fail_msg("%s", tool_out(tool));
    probe_text(f->probe, "FLUSHALL");
}

#define DOCTOR_OF_NUMBERS "doctor", "--kind", "semaphore", "--kind", "unleased", "--kind", "latch"

static void a_doctor_deletes_the_numbers_that_it_has_set_and_no_others(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, DOCTOR_OF_NUMBERS);

    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "ok    semaphore"));
    assert_non_null(strstr(tool_out(tool), "ok    unleased"));
    assert_null(strstr(tool_out(tool), "note  log"));
    assert_true(wait_for_no_keys(f->probe));
    probe_text(f->probe, "MSET relock:doctor:semaphore 1 relock:doctor:unleased 0");
    assert_tool(f, 0, DOCTOR_OF_NUMBERS);
    assert_int_equal(probe_int(f->probe, "GET relock:doctor:semaphore"), 1);
    assert_int_equal(probe_int(f->probe, "GET relock:doctor:unleased"), 0);
    assert_int_equal(probe_int(f->probe, "DEL relock:doctor:semaphore relock:doctor:unleased"), 2);
    assert_true(wait_for_no_keys(f->probe));
}

/* Scripts that need the time fail, and the tool cannot compare clocks. */
static void a_server_without_time_lacks_fair_locks_alone(void **state)
{
    struct server *without =
        server_start(&(struct server_options){.args = {"--rename-command", "TIME", ""}});
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "doctor", without->unix_url);

    assert_int_equal(tool_wait(tool), 1);
    assert_non_null(strstr(tool_out(tool), "note  clock"));
    assert_non_null(strstr(tool_out(tool), "the server does not tell its time (TIME)"));
    assert_non_null(strstr(tool_out(tool), "bad   fair"));
    assert_non_null(strstr(tool_out(tool), "ok    reentrant"));
    assert_non_null(strstr(tool_out(tool), "ok    fenced"));
    assert_non_null(strstr(tool_out(tool), "ok    write"));
    assert_non_null(strstr(tool_out(tool), "ok    plain"));
    tool = tool_start(f, "status", "--url", without->unix_url, "orders");
    assert_int_equal(tool_wait(tool), 1);
    assert_non_null(strstr(tool_out(tool), "free"));
    tool = tool_start(f, "waiters", "--url", without->unix_url, "orders");
    assert_int_equal(tool_wait(tool), 0);
    tool = tool_start(f, "break", "--yes", "--url", without->unix_url, "orders");
    assert_int_equal(tool_wait(tool), 0);
    server_stop(without);
}

/* Behind some proxies it has another form. */
static void an_answer_to_time_that_is_no_time_is_not_taken_for_one(void **state)
{
    struct server *other = server_start(&(struct server_options){
        .args = {"--rename-command", "TIME", "", "--rename-command", "ROLE", "TIME"}});
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "doctor", other->unix_url);

    (void)tool_wait(tool);
    assert_non_null(strstr(tool_out(tool), "note  clock"));
    assert_non_null(strstr(tool_out(tool), "the answer to TIME is not a number of seconds"));
    server_stop(other);
}

/* Servers that are only like Redis have another INFO. */
static void what_info_does_not_say_is_not_fine(void **state)
{
    static const char *const checks[] = {"server", "eviction", "persistence", "failover",
                                         "connections"};
    struct server *other = server_start(&(struct server_options){
        .args = {"--rename-command", "INFO", "", "--rename-command", "LOLWUT", "INFO"}});
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "doctor", "--kind", "spin", other->unix_url);

    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "INFO has no version"));
    for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
        char note[32];

        (void)snprintf(note, sizeof(note), "note  %s ", checks[i]);
        assert_non_null(strstr(tool_out(tool), note));
    }
    assert_non_null(strstr(tool_out(tool), "ok    spin"));
    server_stop(other);
}

/* As on a server that is a part of a test, and has no clock. */
static void a_lease_that_does_not_end_is_bad(void **state)
{
    struct fixture *f = *state;
    struct server *standing;
    struct tool *tool;

    setenv("LD_PRELOAD", CLOCK_AHEAD, 1);
    setenv("CLOCK_STANDS", "1", 1);
    standing = server_start(NULL);
    unsetenv("LD_PRELOAD");
    unsetenv("CLOCK_STANDS");
    tool = tool_start(f, "doctor", "--kind", "plain", standing->unix_url);
    assert_int_equal(tool_wait(tool), 1);
    assert_non_null(strstr(tool_out(tool), "bad   lease"));
    assert_non_null(strstr(tool_out(tool), "ok    plain"));
    server_stop(standing);
}

static void a_name_that_leaves_no_room_for_others_is_refused(void **state)
{
    struct fixture *f = *state;
    char name[4097];
    struct tool *tool;

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    tool = tool_start(f, "doctor", "--name", name);
    assert_int_equal(tool_wait(tool), 125);
    assert_non_null(strstr(tool_err(tool), "--name: at most "));
}

static void a_server_that_is_not_there_is_bad(void **state)
{
    struct fixture *f = *state;
    bool has_tls = fixture_options(f, NULL).tls_ca_file;
    struct tool *tool =
        tool_start(f, "doctor", has_tls ? "rediss://127.0.0.1:1" : "redis://127.0.0.1:1");

    assert_int_equal(tool_wait(tool), 1);
    assert_non_null(strstr(tool_out(tool), "bad   connection"));
    assert_non_null(strstr(tool_out(tool), "127.0.0.1:1: Connection refused"));
    assert_non_null(strstr(tool_out(tool), "-> start the server"));
    assert_null(strstr(tool_out(tool), "note"));
}

/* ---- the clocks of replicas ---------------------------------------------------------------- */

static bool has_no_replica(void *arg)
{
    return strstr(probe_text(arg, "INFO replication"), "connected_slaves:0") != NULL;
}

/* A replica of the fixture's server, whose date is so many seconds ahead. */
static struct server *start_replica(struct fixture *f, const char *ahead_s)
{
    struct server *replica;

    setenv("LD_PRELOAD", CLOCK_AHEAD, 1);
    setenv("CLOCK_AHEAD_S", ahead_s, 1);
    replica = server_start_replica(f->server);
    unsetenv("LD_PRELOAD");
    unsetenv("CLOCK_AHEAD_S");
    assert_true(probe_wait_replica(f->probe));
    return replica;
}

static void stop_replica(struct fixture *f, struct server *replica)
{
    server_stop(replica);
    assert_true(wait_until(has_no_replica, f->probe, SOON_MS));
}

/* The doctor ends with this status and prints these words about the replica. */
static void assert_found(struct fixture *f, const char *ahead_s, int status, const char *words)
{
    struct server *replica = start_replica(f, ahead_s);
    struct tool *tool = tool_start(f, "doctor");
    int r = tool_wait(tool);

    stop_replica(f, replica);
    assert_int_equal(r, status);
    if (!strstr(tool_out(tool), words))
        fail_msg("%s", tool_out(tool));
}

static void a_replica_whose_clock_is_ahead_is_bad(void **state)
{
    assert_found(*state, "9", 1, "bad   replica clock");
}

static void a_replica_whose_clock_is_behind_is_noted(void **state)
{
    assert_found(*state, "-9", 0, "note  replica clock");
}

static void a_replica_with_the_clock_of_its_master_is_fine(void **state)
{
    assert_found(*state, "0", 0, "ok    replica clock");
}

static void a_replica_that_does_not_answer_is_noted(void **state)
{
    struct fixture *f = *state;
    struct server *replica = start_replica(f, "0");
    struct tool *tool;

    server_pause(replica);
    tool = tool_start(f, "doctor");
    assert_int_equal(tool_wait(tool), 0);
    server_resume(replica);
    stop_replica(f, replica);
    assert_non_null(strstr(tool_out(tool), "note  replica clock"));
    assert_non_null(strstr(tool_out(tool), "could not be asked"));
}

/* A busy machine may be slow as well, but not each time. */
static void a_slow_network_is_not_bad(void **state)
{
    struct fixture *f = *state;
    struct proxy *proxy = proxy_start(f->server, NULL);
    struct tool *tool;
    int status;

    proxy_delay(proxy, SLOW_MS);
    for (int i = 0; i < 3; i++) {
        tool = tool_start(f, "doctor", proxy_url(proxy));
        status = tool_wait(tool);
        if (status == 0)
            break;
        print_message("%s", tool_out(tool));
    }
    proxy_stop(proxy);
    assert_int_equal(status, 0);
    assert_null(strstr(tool_out(tool), "bad "));
    assert_non_null(strstr(tool_out(tool), "ok    reentrant"));
}

static void a_bench_counts_pairs(void **state)
{
    struct fixture *f = *state;
    struct tool *tool;

    assert_tool(f, 0, "bench", "--duration", "50ms");
    tool = tool_start(f, "bench", "--threads", "3", "--shared", "--duration", "50ms", "--json");
    assert_int_equal(tool_wait(tool), 0);
    assert_true(tool_printed_json(tool));
    assert_non_null(strstr(tool_out(tool), "\"threads\": 3"));
    assert_tool(f, 125, "bench", "--threads", "0");
    assert_tool(f, 125, "bench", "--threads", "4294967297");
    assert_tool(f, 125, "bench", "--threads", "3x");
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* A replica is to be served at once. */
static int start_master(void **state)
{
    return fixture_start_with(
        state, &(struct server_options){.tcp = true, .args = {"--repl-diskless-sync-delay", "0"}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(a_good_server_is_found_to_be_good),
        TOOL_TEST(eviction_is_bad),
        TOOL_TEST(a_missing_right_is_named),
        TOOL_TEST(a_semaphore_of_an_earlier_doctor_is_not_in_the_way),
        TOOL_TEST(a_doctor_deletes_the_numbers_that_it_has_set_and_no_others),
        TOOL_TEST(a_server_without_time_lacks_fair_locks_alone),
        TOOL_TEST(an_answer_to_time_that_is_no_time_is_not_taken_for_one),
        TOOL_TEST(what_info_does_not_say_is_not_fine),
        TOOL_TEST(a_lease_that_does_not_end_is_bad),
        TOOL_TEST(a_name_that_leaves_no_room_for_others_is_refused),
        TOOL_TEST(a_server_that_is_not_there_is_bad),
        TOOL_TEST(a_slow_network_is_not_bad),
        TOOL_TEST(a_bench_counts_pairs),
        TOOL_TEST(a_replica_whose_clock_is_ahead_is_bad),
        TOOL_TEST(a_replica_whose_clock_is_behind_is_noted),
        TOOL_TEST(a_replica_with_the_clock_of_its_master_is_fine),
        TOOL_TEST(a_replica_that_does_not_answer_is_noted),
    };

    return cmocka_run_group_tests(tests, start_master, fixture_stop);
}
