/* Running a script before a deadline: its connection breaks. */
#include "calls.h"

#include "redis/connect/conn_id.h"
#include "redis/deployment/run.h"

#include <string.h>

static struct relock_conn_id *fence; /* connection to kill before the next call of this hold */

static int begin(void **state)
{
    fence = NULL;
    call = (struct relock_call){
        .script = &relock_script_unlock,
        .key = {"orders", 6},
        .args = {{"id:7", 4}, {"0", 1}},
        .n_args = 2,
        .fence = &fence,
    };
    return talk_begin(state);
}

static int end(void **state)
{
    fence = relock_conn_id_unref(fence);
    return calls_end(state);
}

#define KILL_7 "CLIENT KILL ID 7 ADDR /script:7"

static void kill_is_answered(const char *reply)
{
    script_expect(script, KILL_7);
    script_answer(script, reply);
}

/* The server reads the call and closes connection 7 without a reply. */
static void connection_7_breaks(void)
{
    script_welcome(script, 7);
    talk_expect(&call);
    script_close(script);
}

static struct relock_conn_id *connection_7(void)
{
    return relock_conn_id_new(&(struct relock_server){0}, SCRIPT_FIRST_RUN, 7, "/script:7",
                              strlen("/script:7"));
}

static void connection_7_is_the_fence(void)
{
    static const char bytes[] = "*6\r\n$6\r\nCLIENT\r\n$4\r\nKILL\r\n$2\r\nID\r\n$1\r\n7\r\n"
                                "$4\r\nADDR\r\n$9\r\n/script:7\r\n";
    struct relock_buffer buffer = {0};

    assert_non_null(fence);
    relock_conn_id_kill(fence, NULL, &buffer);
    assert_int_equal(buffer.len, strlen(bytes));
    assert_memory_equal(buffer.data, bytes, buffer.len);
    relock_buffer_deinit(&buffer);
}

/* ---- sent and repeated --------------------------------------------------------------------- */

static void an_unanswered_call_is_repeated_after_its_connection_was_killed(void **state)
{
    static const char *const beginnings[] = {"", ":", ":1\r", "*2\r\n:1\r\n$3\r\nab"};

    (void)state;

    for (size_t i = 0; i < 4; i++) {
        call.unanswered = false;
        script_welcome(script, 7);
        server_answers(beginnings[i]);
        script_close(script);
        script_welcome(script, 8);
        kill_is_answered(":1\r\n");
        server_answers(":1\r\n");
        call_returns(1);
        assert_true(call.unanswered);
        assert_null(fence);
        relock_call_end(&call);
        talk_as(&(struct relock_options){0});
    }
}

static void a_call_is_repeated_if_nothing_is_killed_or_killing_is_denied(void **state)
{
    static const char *const answers[] = {
        ":0\r\n",
        "-ERR No such client\r\n",
        "-NOPERM this user has no permissions to run the 'client|kill' command\r\n",
    };

    (void)state;

    for (size_t i = 0; i < 3; i++) {
        connection_7_breaks();
        script_welcome(script, 8);
        kill_is_answered(answers[i]);
        server_answers(":1\r\n");
        call_returns(1);
        assert_null(fence);
        relock_call_end(&call);
        talk_as(&(struct relock_options){0});
    }
}

/* After a restart connection 7 may belong to another client; ours ended with the server. */
static void no_connection_is_killed_in_another_run_of_the_server(void **state)
{
    (void)state;

    connection_7_breaks();
    script_welcome_in_run(script, "second", 8);
    script_expect(script, "PING");
    script_answer(script, "+PONG\r\n");
    server_answers(":1\r\n");
    call_returns(1);
    assert_true(call.unanswered);
    assert_null(fence);
}

static void a_kill_refused_for_now_is_retried(void **state)
{
    (void)state;

    fence = connection_7();
    script_welcome(script, 8);
    kill_is_answered("-LOADING Redis is loading the dataset in memory\r\n");
    kill_is_answered(":1\r\n");
    server_answers(":1\r\n");
    call_returns(1);
    assert_null(fence);
}

static void a_kill_refused_by_a_known_error_is_no_kill(void **state)
{
    (void)state;

    fence = connection_7();
    script_welcome(script, 8);
    kill_is_answered("-READONLY You can't write against a read only replica.\r\n");
    kill_is_answered("-OOM command not allowed\r\n");
    kill_is_answered("-NOAUTH Authentication required.\r\n");
    kill_is_answered(":1\r\n");
    server_answers(":1\r\n");
    call_returns(1);
    assert_null(fence);
}

static void a_call_goes_on_where_the_kill_is_missing(void **state)
{
    (void)state;

    fence = connection_7();
    script_welcome(script, 8);
    kill_is_answered("-ERR it is not in this plan\r\n");
    server_answers(":1\r\n");
    call_returns(1);
    assert_null(fence);
}

static void a_call_without_a_fence_is_repeated_without_killing(void **state)
{
    (void)state;

    call.fence = NULL;
    connection_7_breaks();
    script_welcome(script, 8);
    server_answers(":1\r\n");
    call_returns(1);
    assert_true(call.unanswered);
}

static void a_connection_unknown_to_the_server_cannot_be_killed(void **state)
{
    (void)state;

    script_accept(script);
    talk_expect_login();
    script_answer(script, SCRIPT_HELLO "$-1\r\n-ERR unknown subcommand\r\n");
    talk_expect(&call);
    script_close(script);
    script_welcome(script, 8);
    server_answers(":1\r\n");
    call_returns(1);
    assert_true(call.unanswered);
    assert_null(fence);
}

static void each_connection_that_breaks_is_killed_before_the_next_attempt(void **state)
{
    (void)state;

    connection_7_breaks();
    script_welcome(script, 8);
    kill_is_answered(":1\r\n");
    talk_expect(&call);
    script_close(script);
    script_welcome(script, 9);
    script_expect(script, "CLIENT KILL ID 8 ADDR /script:8");
    script_answer(script, ":1\r\n");
    server_answers(":1\r\n");
    call_returns(1);
    assert_null(fence);
}

static void a_refused_repeat_leaves_the_outcome_unknown(void **state)
{
    (void)state;

    connection_7_breaks();
    script_welcome(script, 8);
    kill_is_answered(":1\r\n");
    server_answers("-OOM command not allowed\r\n");
    assert_int_equal(run_call(), RELOCK_E_SERVER);
    assert_true(call.unanswered);
}

/* ---- sent, outcome unknown ----------------------------------------------------------------- */

static void without_an_answer_by_the_deadline_the_outcome_is_unknown(void **state)
{
    uint64_t deadline_ms;

    (void)state;

    talk_connect(&call, 7);
    talk_expect(&call);
    script_expect_end(script);
    deadline_ms = in_ms(slow_ms(BRIEF_MS));
    assert_int_equal(relock_call_run(&call, topology, deadline_ms), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_true(call.unanswered);
    assert_null(call.reply);
    assert_non_null(strstr(call.why, server.label));
    connection_7_is_the_fence();
}

static void the_next_call_first_kills_the_fence_of_the_last(void **state)
{
    (void)state;

    talk_connect(&call, 7);
    talk_expect(&call);
    script_expect_end(script);
    assert_int_equal(relock_call_run(&call, topology, in_ms(slow_ms(BRIEF_MS))), RELOCK_E_CONN);
    connection_7_is_the_fence();
    call.unanswered = false;

    script_welcome(script, 8);
    kill_is_answered(":1\r\n");
    server_answers(":1\r\n");
    call_returns(1);
    assert_false(call.unanswered);
    assert_null(fence);
}

static void a_fence_stays_until_the_server_has_answered_the_kill(void **state)
{
    (void)state;

    fence = connection_7();
    script_welcome(script, 8);
    script_expect(script, KILL_7);
    script_close(script);
    script_welcome(script, 9);
    kill_is_answered(":1\r\n");
    server_answers(":1\r\n");
    call_returns(1);
    assert_false(call.unanswered); /* the call itself was sent once */
    assert_null(fence);
}

static void a_call_is_not_sent_while_its_fence_cannot_be_killed(void **state)
{
    (void)state;

    talk_connect(&call, 8);
    fence = connection_7();
    script_expect(script, KILL_7);
    script_expect_end(script);
    assert_int_equal(relock_call_run(&call, topology, in_ms(slow_ms(BRIEF_MS))), RELOCK_E_CONN);
    assert_false(call.unanswered);
    connection_7_is_the_fence();
}

/* ---- never sent ---------------------------------------------------------------------------- */

static void without_a_listener_nothing_is_sent(void **state)
{
    (void)state;

    talk_as(&(struct relock_options){.url = "unix:///nonexistent/socket"});
    assert_int_equal(relock_call_run(&call, topology, in_ms(20)), RELOCK_E_CONN);
    assert_false(call.unanswered);
    assert_null(fence);
    assert_non_null(strstr(call.why, "unix:///nonexistent/socket"));
}

static void while_all_connections_are_busy_nothing_is_sent(void **state)
{
    struct relock_lane *others[2];
    uint64_t deadline_ms;

    (void)state;

    for (int i = 0; i < 2; i++)
        assert_int_equal(relock_lanes_join(lanes, true, soon(), &others[i]), RELOCK_OK);
    deadline_ms = in_ms(20);
    assert_int_equal(relock_call_run(&call, topology, deadline_ms), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_false(call.unanswered);
    assert_non_null(strstr(call.why, "busy"));
    for (int i = 0; i < 2; i++)
        relock_lanes_leave(lanes, others[i]);
}

static void a_call_reconnects_if_the_connection_ended_while_idle(void **state)
{
    (void)state;

    script_welcome(script, 7);
    server_answers(":1\r\n");
    script_close(script);
    call_returns(1);
    assert_true(script_played(script)); /* the server has closed the connection */
    relock_call_end(&call);

    script_welcome(script, 8);
    server_answers(":1\r\n");
    call_returns(1);
    assert_false(call.unanswered);
    assert_null(fence);
    assert_int_equal(atomic_load(&server.counts->reconnects), 1);
}

#define LOST_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOST_TEST(an_unanswered_call_is_repeated_after_its_connection_was_killed),
        LOST_TEST(a_call_is_repeated_if_nothing_is_killed_or_killing_is_denied),
        LOST_TEST(no_connection_is_killed_in_another_run_of_the_server),
        LOST_TEST(a_kill_refused_for_now_is_retried),
        LOST_TEST(a_kill_refused_by_a_known_error_is_no_kill),
        LOST_TEST(a_call_goes_on_where_the_kill_is_missing),
        LOST_TEST(a_call_without_a_fence_is_repeated_without_killing),
        LOST_TEST(a_connection_unknown_to_the_server_cannot_be_killed),
        LOST_TEST(each_connection_that_breaks_is_killed_before_the_next_attempt),
        LOST_TEST(a_refused_repeat_leaves_the_outcome_unknown),
        LOST_TEST(without_an_answer_by_the_deadline_the_outcome_is_unknown),
        LOST_TEST(the_next_call_first_kills_the_fence_of_the_last),
        LOST_TEST(a_fence_stays_until_the_server_has_answered_the_kill),
        LOST_TEST(a_call_is_not_sent_while_its_fence_cannot_be_killed),
        LOST_TEST(without_a_listener_nothing_is_sent),
        LOST_TEST(while_all_connections_are_busy_nothing_is_sent),
        LOST_TEST(a_call_reconnects_if_the_connection_ended_while_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
