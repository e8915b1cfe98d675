/* Command connections, driven by the thread that needs them. */
#include "talk.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/reply.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static struct relock_sync_conn the_link;

static int begin(void **state)
{
    int r = talk_begin(state);

    relock_sync_conn_init(&the_link, &server);
    return r;
}

static int end(void **state)
{
    relock_sync_conn_deinit(&the_link);
    return talk_end(state);
}

/* Takes a conn and connects it; the server calls it 7. */
static void connect_link(void)
{
    script_welcome(script, 7);
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_OK);
}

static int ping(void)
{
    relock_command_begin(&the_link.wire.out, 1);
    relock_command_word(&the_link.wire.out, "PING");
    return relock_sync_conn_send(&the_link, soon());
}

static int receives(const char *text)
{
    struct redisReply *reply = NULL;
    int r = relock_sync_conn_receive(&the_link, soon(), &reply);

    if (r == RELOCK_OK) {
        assert_true(relock_reply_is(reply, text));
        relock_reply_free(reply);
    }
    return r;
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void a_connection_is_made_when_needed_and_once(void **state)
{
    (void)state;

    assert_int_equal(the_link.wire.fd, -1);

    connect_link();
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_OK);
    assert_true(script_played(script));
    assert_int_equal(relock_sync_conn_reconnects(&the_link), 0);
}

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
    script_expect(script, "CLIENT INFO"); /* all in one piece: nothing was answered yet */
    script_answer(script,
                  "+OK\r\n" SCRIPT_HELLO "+OK\r\n+OK\r\n$0\r\n\r\n-ERR unknown subcommand\r\n");
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_OK);
    assert_null(the_link.conn_id);
    assert_true(script_played(script));
}

static void a_connection_knows_its_id_while_connected(void **state)
{
    (void)state;

    connect_link();
    assert_non_null(the_link.conn_id);
    relock_sync_conn_close(&the_link);
    assert_null(the_link.conn_id);
    script_expect_end(script);
    assert_true(script_played(script));
}

static void a_refused_login_closes_the_connection(void **state)
{
    (void)state;

    talk_as(&(struct relock_options){.password = "hidden"});
    script_accept(script);
    script_expect(script, "AUTH hidden");
    script_expect(script, "HELLO");
    script_expect(script, "INFO server");
    script_expect(script, "CLIENT INFO");
    script_answer(script, "-WRONGPASS no\r\n-NOAUTH no\r\n-NOAUTH no\r\n-NOAUTH no\r\n");
    script_expect_end(script);
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_E_AUTH);
    assert_true(script_played(script));
    assert_int_equal(the_link.wire.fd, -1);
    assert_non_null(strstr(the_link.wire.why, "WRONGPASS no"));
    assert_non_null(strstr(the_link.wire.why, server.label));
    assert_null(strstr(the_link.wire.why, "hidden"));
}

static void a_connect_to_a_silent_server_fails_in_time(void **state)
{
    uint64_t deadline_ms;

    (void)state;

    talk_as(&(struct relock_options){.connect_timeout_ms = BRIEF_MS});
    script_accept(script);
    script_expect(script, "HELLO");
    script_expect(script, "INFO server");
    script_expect(script, "CLIENT INFO");
    script_expect_end(script);
    deadline_ms = in_ms(BRIEF_MS);
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_true(script_played(script));
}

static void connecting_goes_on_where_a_deadline_has_stopped_it(void **state)
{
    uint64_t deadline_ms = in_ms(BRIEF_MS);

    (void)state;

    script_accept(script);
    script_expect(script, "HELLO");
    script_expect(script, "INFO server");
    script_expect(script, "CLIENT INFO");
    assert_int_equal(relock_sync_conn_connect(&the_link, deadline_ms), RELOCK_AGAIN);
    assert_true(has_just_passed(deadline_ms));
    assert_true(script_played(script));
    script_answer(script, SCRIPT_HELLO "-NOPERM no\r\n$26\r\nid=7 addr=127.0.0.1:5 fd=8\r\n");
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_OK);
    assert_non_null(the_link.conn_id);
    assert_true(script_played(script)); /* on the same connection */
}

static void without_a_listener_there_is_no_connection(void **state)
{
    (void)state;

    talk_as(&(struct relock_options){.url = "unix:///nonexistent/socket"});
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_E_CONN);
    assert_non_null(strstr(the_link.wire.why, "unix:///nonexistent/socket: "));
    assert_int_equal(the_link.n_sent, 0);
}

/* ---- asking -------------------------------------------------------------------------------- */

static void a_reply_may_come_byte_by_byte(void **state)
{
    (void)state;

    connect_link();
    script_expect(script, "PING");
    script_answer_bytewise(script, "$7\r\nhel\r\nlo\r\n");
    script_answer(script, "+next\r\n");
    assert_int_equal(ping(), RELOCK_OK);
    assert_int_equal(receives("hel\r\nlo"), RELOCK_OK);
    assert_int_equal(receives("next"), RELOCK_OK);
    assert_true(script_played(script));
}

static void a_connection_closed_in_the_middle_of_a_reply_is_a_failure(void **state)
{
    (void)state;

    connect_link();
    script_expect(script, "PING");
    script_answer(script, "$5\r\nhel");
    script_close(script);
    assert_int_equal(ping(), RELOCK_OK);
    assert_int_equal(receives("hello"), RELOCK_E_CONN);
    relock_sync_conn_close(&the_link);
    assert_true(the_link.n_sent > 0);
    assert_non_null(strstr(the_link.wire.why, server.label));
    assert_true(script_played(script));
}

static void a_reply_is_waited_for_until_the_deadline_and_not_longer(void **state)
{
    static const char *const halves[] = {"", "$5\r\nhel"};

    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct redisReply *reply;
        uint64_t deadline_ms;

        connect_link();
        script_expect(script, "PING");
        script_answer(script, halves[i]);
        script_expect_end(script);
        assert_int_equal(ping(), RELOCK_OK);
        deadline_ms = in_ms(30);
        assert_int_equal(relock_sync_conn_receive(&the_link, deadline_ms, &reply), RELOCK_AGAIN);
        assert_non_null(strstr(the_link.wire.why, "no answer in time"));
        relock_sync_conn_close(&the_link);
        assert_true(has_just_passed(deadline_ms));
        assert_true(script_played(script)); /* the conn has closed the connection */
    }
}

static void a_late_answer_is_not_taken_for_the_next_one(void **state)
{
    struct redisReply *reply;

    (void)state;

    connect_link();
    script_expect(script, "PING");
    assert_int_equal(ping(), RELOCK_OK);
    assert_int_equal(relock_sync_conn_receive(&the_link, in_ms(5), &reply), RELOCK_AGAIN);
    relock_sync_conn_close(&the_link);
    script_answer(script, "+late\r\n");

    script_welcome(script, 8);
    script_expect(script, "PING");
    script_answer(script, "+PONG\r\n");
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_OK);
    assert_int_equal(relock_sync_conn_reconnects(&the_link), 1);
    assert_int_equal(ping(), RELOCK_OK);
    assert_int_equal(receives("PONG"), RELOCK_OK);
    assert_true(script_played(script));
}

static void an_answer_that_arrived_counts_though_it_is_read_late(void **state)
{
    struct redisReply *reply = NULL;

    (void)state;

    connect_link();
    script_expect(script, "PING");
    script_answer(script, "+PONG\r\n");
    assert_int_equal(ping(), RELOCK_OK);
    assert_true(script_played(script));
    assert_int_equal(relock_sync_conn_receive(&the_link, 0, &reply), RELOCK_OK);
    relock_reply_free(reply);
}

static void on_signal(int number)
{
    (void)number;
}

static void signals_do_not_hold_a_deadline_up(void **state)
{
    const struct itimerval each_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct redisReply *reply;
    uint64_t deadline_ms;

    (void)state;

    connect_link();
    script_expect(script, "PING");
    assert_int_equal(ping(), RELOCK_OK);
    assert_true(script_played(script)); /* so that a signal ends none of its waits */
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &each_ms, NULL);
    deadline_ms = in_ms(30);
    assert_int_equal(relock_sync_conn_receive(&the_link, deadline_ms, &reply), RELOCK_AGAIN);
    relock_sync_conn_close(&the_link);
    assert_true(has_just_passed(deadline_ms));
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN); /* one may still be on its way */
    assert_true(script_played(script));
}

/* ---- what was sent ------------------------------------------------------------------------- */

static void after_the_deadline_nothing_is_sent(void **state)
{
    (void)state;

    connect_link();
    script_expect_end(script);
    relock_command_begin(&the_link.wire.out, 1);
    relock_command_word(&the_link.wire.out, "PING");
    assert_int_equal(relock_sync_conn_send(&the_link, relock_clock_now_ms()), RELOCK_E_CONN);
    relock_sync_conn_close(&the_link);
    assert_int_equal(the_link.n_sent, 0);
    assert_true(script_played(script));
}

static void a_command_that_went_out_in_part_has_been_sent(void **state)
{
    static char large[8 << 20];
    uint64_t deadline_ms;

    (void)state;

    connect_link();
    assert_true(script_played(script)); /* and it reads no more */
    relock_command_arg(&the_link.wire.out, large, sizeof(large));
    deadline_ms = in_ms(BRIEF_MS);
    assert_int_equal(relock_sync_conn_send(&the_link, deadline_ms), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_true(the_link.n_sent > 0);
}

static void a_command_whose_connection_broke_in_the_middle_has_been_sent(void **state)
{
    static char large[8 << 20];

    (void)state;

    connect_link();
    script_expect(script, "PING");
    script_close(script);
    relock_command_begin(&the_link.wire.out, 1);
    relock_command_word(&the_link.wire.out, "PING");
    relock_command_arg(&the_link.wire.out, large, sizeof(large));
    assert_int_equal(relock_sync_conn_send(&the_link, soon()), RELOCK_E_CONN);
    assert_true(the_link.n_sent > 0);
    assert_true(script_played(script));
}

/* ---- idle lanes ---------------------------------------------------------------------------- */

static void the_end_of_an_idle_connection_is_noticed_before_it_is_used(void **state)
{
    (void)state;

    connect_link();
    script_close(script);
    assert_true(script_played(script));
    the_link.used_ms = 0; /* long ago */

    connect_link();
    assert_int_equal(relock_sync_conn_reconnects(&the_link), 1);
    script_expect(script, "PING");
    script_answer(script, "+PONG\r\n");
    assert_int_equal(ping(), RELOCK_OK);
    assert_int_equal(receives("PONG"), RELOCK_OK);
    assert_true(script_played(script));
}

static void an_idle_connection_that_says_something_unasked_is_not_trusted(void **state)
{
    (void)state;

    connect_link();
    script_answer(script, "+late\r\n");
    assert_true(script_played(script));
    the_link.used_ms = 0;

    script_welcome(script, 8);
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_OK);
    script_turn_to(script, 0);
    script_expect_end(script);
    assert_true(script_played(script));
}

static void more_replies_than_commands_are_not_trusted_either(void **state)
{
    (void)state;

    connect_link();
    script_expect(script, "PING");
    script_answer(script, "+PONG\r\n+PONG\r\n");
    assert_int_equal(ping(), RELOCK_OK);
    assert_int_equal(receives("PONG"), RELOCK_OK);
    script_expect_end(script);
    script_welcome(script, 8);
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_OK);
    assert_true(script_played(script));
}

static void an_idle_connection_that_is_quiet_is_kept(void **state)
{
    (void)state;

    connect_link();
    the_link.used_ms = 0;
    assert_int_equal(relock_sync_conn_connect(&the_link, soon()), RELOCK_OK);
    assert_int_equal(relock_sync_conn_reconnects(&the_link), 0);
    assert_true(script_played(script));
}

#define LINK_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINK_TEST(a_connection_is_made_when_needed_and_once),
        LINK_TEST(a_connection_logs_in_with_the_options),
        LINK_TEST(a_connection_knows_its_id_while_connected),
        LINK_TEST(a_refused_login_closes_the_connection),
        LINK_TEST(a_connect_to_a_silent_server_fails_in_time),
        LINK_TEST(connecting_goes_on_where_a_deadline_has_stopped_it),
        LINK_TEST(without_a_listener_there_is_no_connection),
        LINK_TEST(a_reply_may_come_byte_by_byte),
        LINK_TEST(a_connection_closed_in_the_middle_of_a_reply_is_a_failure),
        LINK_TEST(a_reply_is_waited_for_until_the_deadline_and_not_longer),
        LINK_TEST(a_late_answer_is_not_taken_for_the_next_one),
        LINK_TEST(an_answer_that_arrived_counts_though_it_is_read_late),
        LINK_TEST(signals_do_not_hold_a_deadline_up),
        LINK_TEST(after_the_deadline_nothing_is_sent),
        LINK_TEST(a_command_that_went_out_in_part_has_been_sent),
        LINK_TEST(a_command_whose_connection_broke_in_the_middle_has_been_sent),
        LINK_TEST(the_end_of_an_idle_connection_is_noticed_before_it_is_used),
        LINK_TEST(an_idle_connection_that_says_something_unasked_is_not_trusted),
        LINK_TEST(more_replies_than_commands_are_not_trusted_either),
        LINK_TEST(an_idle_connection_that_is_quiet_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
