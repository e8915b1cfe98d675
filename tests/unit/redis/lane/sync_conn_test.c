/* Command connections, driven by the calling thread. */
#include "unit/common/talk.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/lane/private.h"
#include "redis/server/reply.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static struct relock_sync_conn conn;

static int begin(void **state)
{
    int r = talk_begin(state);

    relock_sync_conn_init(&conn, &server);
    return r;
}

static int end(void **state)
{
    (void)script_played(script); /* before the connection closes */
    relock_sync_conn_deinit(&conn);
    return talk_end(state);
}

/* The server calls the connection 7. */
static void connect_as_7(void)
{
    script_welcome(script, 7);
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_OK);
}

/* Sends PING, to which the server answers with these bytes. */
static void ping(const char *answer)
{
    script_expect(script, "PING");
    script_answer(script, answer);
    relock_command_begin(&conn.wire.out, 1);
    relock_command_word(&conn.wire.out, "PING");
    assert_int_equal(relock_sync_conn_send(&conn, soon()), RELOCK_OK);
}

static int receives(const char *text)
{
    struct redisReply *reply = NULL;
    int r = relock_sync_conn_receive(&conn, soon(), &reply);

    if (r == RELOCK_OK) {
        assert_true(relock_reply_is(reply, text));
        relock_reply_free(reply);
    }
    return r;
}

static void ping_is_answered(void)
{
    ping("+PONG\r\n");
    assert_int_equal(receives("PONG"), RELOCK_OK);
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void a_connection_logs_in_with_the_options(void **state)
{
    struct relock_options options = {.user = "u", .password = "hidden", .client_name = "shop"};
    char url[128];

    (void)state;

    snprintf(url, sizeof(url), "%s?db=3", script_server_url(script));
    options.url = url;
    talk_as(&options);
    script_accept(script);
    script_expect(script, "AUTH u hidden");
    script_expect(script, "HELLO");
    script_expect(script, "CLIENT SETNAME shop:id");
    script_expect(script, "SELECT 3");
    script_expect(script, "INFO server");
    script_expect(script, "CLIENT INFO"); /* in one write, before any reply */
    script_answer(script,
                  "+OK\r\n" SCRIPT_HELLO "+OK\r\n+OK\r\n$0\r\n\r\n-ERR unknown subcommand\r\n");
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_OK);
    assert_null(conn.login.conn_id);
}

static void a_server_without_hello_is_asked_for_its_role(void **state)
{
    (void)state;

    for (int is_replica = 0; is_replica < 2; is_replica++) {
        script_accept(script);
        talk_expect_login();
        script_answer(script, "-ERR it is not in this plan\r\n$0\r\n\r\n$-1\r\n");
        script_expect(script, "INFO replication");
        script_answer(script, is_replica ? "$27\r\n# Replication\r\nrole:slave\r\n\r\n"
                                         : "$28\r\n# Replication\r\nrole:master\r\n\r\n");
        assert_int_equal(relock_sync_conn_connect(&conn, soon()),
                         is_replica ? RELOCK_REPLICA : RELOCK_OK);
        relock_sync_conn_close(&conn);
    }
}

static void a_connection_knows_its_id_while_connected(void **state)
{
    (void)state;

    connect_as_7();
    assert_non_null(conn.login.conn_id);
    relock_sync_conn_close(&conn);
    assert_null(conn.login.conn_id);
    script_expect_end(script);
}

static void a_refused_login_closes_the_connection(void **state)
{
    (void)state;

    talk_as(&(struct relock_options){.password = "hidden"});
    script_accept(script);
    script_expect(script, "AUTH hidden");
    talk_expect_login();
    script_answer(script, "-WRONGPASS no\r\n-NOAUTH no\r\n-NOAUTH no\r\n-NOAUTH no\r\n");
    script_expect_end(script);
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_E_AUTH);
    assert_true(script_played(script));
    assert_int_equal(conn.wire.fd, -1);
    assert_non_null(strstr(conn.wire.why, "WRONGPASS no"));
    assert_non_null(strstr(conn.wire.why, server.label));
    assert_null(strstr(conn.wire.why, "hidden"));
}

/* Proxies and servers that lack a command do so without a word. */
static void a_connection_closed_during_the_login_names_the_command(void **state)
{
    static const struct {
        const char *answer, *why;
    } answers[] = {
        {"", ": the server closed the connection before it answered HELLO"},
        {SCRIPT_HELLO, ": the server closed the connection before it answered INFO"},
    };

    (void)state;

    for (size_t i = 0; i < 2; i++) {
        script_accept(script);
        talk_expect_login();
        script_answer(script, answers[i].answer);
        script_close(script);
        assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_E_CONN);
        assert_true(script_played(script));
        assert_non_null(strstr(conn.wire.why, answers[i].why));
    }
    /* Later ends are not about the login. */
    connect_as_7();
    ping("");
    script_close(script);
    assert_int_equal(receives("PONG"), RELOCK_E_CONN);
    assert_null(strstr(conn.wire.why, "before it answered"));
}

static void a_server_that_speaks_http_is_named_by_that(void **state)
{
    (void)state;

    script_accept(script);
    talk_expect_login();
    script_answer(script, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_E_CONN);
    assert_non_null(strstr(conn.wire.why, "the server speaks HTTP on this port"));
    script_expect_end(script);
}

static void a_connect_to_a_silent_server_fails_in_time(void **state)
{
    uint64_t deadline_ms;

    (void)state;

    talk_as(&(struct relock_options){.connect_timeout_ms = BRIEF_MS});
    script_accept(script);
    talk_expect_login();
    script_expect_end(script);
    deadline_ms = in_ms(BRIEF_MS);
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_non_null(strstr(conn.wire.why, ": no answer to HELLO in time"));
}

static void connecting_continues_after_a_deadline(void **state)
{
    uint64_t deadline_ms = in_ms(BRIEF_MS);

    (void)state;

    script_accept(script);
    talk_expect_login();
    assert_int_equal(relock_sync_conn_connect(&conn, deadline_ms), RELOCK_AGAIN);
    assert_true(has_just_passed(deadline_ms));
    assert_true(script_played(script));
    script_answer(script, SCRIPT_HELLO "-NOPERM no\r\n$26\r\nid=7 addr=127.0.0.1:5 fd=8\r\n");
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_OK);
    assert_non_null(conn.login.conn_id);
}

/* Its users had short deadlines, and the next one comes late. */
static void an_attempt_that_timed_out_is_repeated(void **state)
{
    (void)state;

    script_accept(script);
    script_expect(script, "HELLO");
    assert_int_equal(relock_sync_conn_connect(&conn, in_ms(BRIEF_MS)), RELOCK_AGAIN);
    conn.connect_by_ms = 1; /* long ago */

    script_expect(script, "INFO server");
    script_expect(script, "CLIENT INFO");
    script_expect_end(script);
    script_welcome(script, 8);
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_OK);
    assert_true(script_played(script));
}

static void without_a_listener_there_is_no_connection(void **state)
{
    (void)state;

    talk_as(&(struct relock_options){.url = "unix:///nonexistent/socket"});
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_E_CONN);
    assert_non_null(strstr(conn.wire.why, "unix:///nonexistent/socket: "));
    assert_int_equal(conn.n_sent, 0);
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void a_connection_closed_in_the_middle_of_a_reply_is_a_failure(void **state)
{
    (void)state;

    connect_as_7();
    ping("$5\r\nhel");
    script_close(script);
    assert_int_equal(receives("hello"), RELOCK_E_CONN);
    relock_sync_conn_close(&conn);
    assert_true(conn.n_sent > 0);
    assert_non_null(strstr(conn.wire.why, server.label));
}

static void waiting_for_a_reply_ends_at_the_deadline(void **state)
{
    static const char *const halves[] = {"", "$5\r\nhel"};

    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct redisReply *reply;
        uint64_t deadline_ms;

        connect_as_7();
        ping(halves[i]);
        script_expect_end(script);
        deadline_ms = in_ms(30);
        assert_int_equal(relock_sync_conn_receive(&conn, deadline_ms, &reply), RELOCK_AGAIN);
        assert_non_null(strstr(conn.wire.why, "no answer in time"));
        relock_sync_conn_close(&conn);
        assert_true(has_just_passed(deadline_ms));
        assert_true(script_played(script)); /* the connection is closed */
    }
}

static void a_late_answer_is_not_taken_for_the_next_one(void **state)
{
    struct redisReply *reply;

    (void)state;

    connect_as_7();
    ping("");
    assert_int_equal(relock_sync_conn_receive(&conn, in_ms(5), &reply), RELOCK_AGAIN);
    relock_sync_conn_close(&conn);
    script_answer(script, "+late\r\n");

    script_welcome(script, 8);
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_OK);
    assert_int_equal(atomic_load(&server.counts->reconnects), 1);
    ping_is_answered();
}

static void a_reply_that_arrived_is_received_after_the_deadline(void **state)
{
    struct redisReply *reply = NULL;

    (void)state;

    connect_as_7();
    ping("+PONG\r\n");
    assert_true(script_played(script));
    assert_int_equal(relock_sync_conn_receive(&conn, 0, &reply), RELOCK_OK);
    relock_reply_free(reply);
}

static void on_signal(int number)
{
    (void)number;
}

static void signals_do_not_delay_a_deadline(void **state)
{
    const struct itimerval each_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct redisReply *reply;
    uint64_t deadline_ms;

    (void)state;

    connect_as_7();
    ping("");
    assert_true(script_played(script)); /* else a signal could end a wait of the server */
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &each_ms, NULL);
    deadline_ms = in_ms(30);
    assert_int_equal(relock_sync_conn_receive(&conn, deadline_ms, &reply), RELOCK_AGAIN);
    relock_sync_conn_close(&conn);
    assert_true(has_just_passed(deadline_ms));
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN); /* one may still be pending */
}

/* ---- sending ------------------------------------------------------------------------------- */

static void after_the_deadline_nothing_is_sent(void **state)
{
    (void)state;

    connect_as_7();
    script_expect_end(script);
    relock_command_begin(&conn.wire.out, 1);
    relock_command_word(&conn.wire.out, "PING");
    assert_int_equal(relock_sync_conn_send(&conn, relock_clock_now_ms()), RELOCK_E_CONN);
    relock_sync_conn_close(&conn);
    assert_int_equal(conn.n_sent, 0);
}

static void a_partly_written_command_counts_as_sent(void **state)
{
    static char large[8 << 20];
    uint64_t deadline_ms;

    (void)state;

    connect_as_7();
    assert_true(script_played(script)); /* the server reads no more */
    relock_command_arg(&conn.wire.out, large, sizeof(large));
    deadline_ms = in_ms(BRIEF_MS);
    assert_int_equal(relock_sync_conn_send(&conn, deadline_ms), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_true(conn.n_sent > 0);
}

static void a_command_cut_off_by_a_broken_connection_counts_as_sent(void **state)
{
    static char large[8 << 20];

    (void)state;

    connect_as_7();
    script_expect(script, "PING");
    script_close(script);
    relock_command_begin(&conn.wire.out, 1);
    relock_command_word(&conn.wire.out, "PING");
    relock_command_arg(&conn.wire.out, large, sizeof(large));
    assert_int_equal(relock_sync_conn_send(&conn, soon()), RELOCK_E_CONN);
    assert_true(conn.n_sent > 0);
}

/* ---- idle connections ---------------------------------------------------------------------- */

static void an_idle_connection_that_has_ended_is_replaced_before_use(void **state)
{
    (void)state;

    connect_as_7();
    script_close(script);
    assert_true(script_played(script));
    conn.used_ms = 0; /* long ago */

    connect_as_7();
    assert_int_equal(atomic_load(&server.counts->reconnects), 1);
    ping_is_answered();
}

static void an_idle_connection_with_an_unexpected_reply_is_replaced(void **state)
{
    (void)state;

    connect_as_7();
    script_answer(script, "+late\r\n");
    assert_true(script_played(script));
    conn.used_ms = 0;

    script_welcome(script, 8);
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_OK);
    script_turn_to(script, 0);
    script_expect_end(script);
}

static void a_connection_with_more_replies_than_commands_is_replaced(void **state)
{
    (void)state;

    connect_as_7();
    ping("+PONG\r\n+PONG\r\n");
    assert_int_equal(receives("PONG"), RELOCK_OK);
    script_expect_end(script);
    script_welcome(script, 8);
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_OK);
}

static void an_idle_connection_that_is_quiet_is_kept(void **state)
{
    (void)state;

    connect_as_7();
    conn.used_ms = 0;
    assert_int_equal(relock_sync_conn_connect(&conn, soon()), RELOCK_OK);
    assert_int_equal(atomic_load(&server.counts->reconnects), 0);
}

#define CONN_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONN_TEST(a_connection_logs_in_with_the_options),
        CONN_TEST(a_server_without_hello_is_asked_for_its_role),
        CONN_TEST(a_connection_knows_its_id_while_connected),
        CONN_TEST(a_refused_login_closes_the_connection),
        CONN_TEST(a_connection_closed_during_the_login_names_the_command),
        CONN_TEST(a_server_that_speaks_http_is_named_by_that),
        CONN_TEST(a_connect_to_a_silent_server_fails_in_time),
        CONN_TEST(connecting_continues_after_a_deadline),
        CONN_TEST(an_attempt_that_timed_out_is_repeated),
        CONN_TEST(without_a_listener_there_is_no_connection),
        CONN_TEST(a_connection_closed_in_the_middle_of_a_reply_is_a_failure),
        CONN_TEST(waiting_for_a_reply_ends_at_the_deadline),
        CONN_TEST(a_late_answer_is_not_taken_for_the_next_one),
        CONN_TEST(a_reply_that_arrived_is_received_after_the_deadline),
        CONN_TEST(signals_do_not_delay_a_deadline),
        CONN_TEST(after_the_deadline_nothing_is_sent),
        CONN_TEST(a_partly_written_command_counts_as_sent),
        CONN_TEST(a_command_cut_off_by_a_broken_connection_counts_as_sent),
        CONN_TEST(an_idle_connection_that_has_ended_is_replaced_before_use),
        CONN_TEST(an_idle_connection_with_an_unexpected_reply_is_replaced),
        CONN_TEST(a_connection_with_more_replies_than_commands_is_replaced),
        CONN_TEST(an_idle_connection_that_is_quiet_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
