/* Running a script before a deadline: its connection breaks. */
#include "redis/call.h"

#include "redis/conn_id.h"
#include "redis/reply.h"
#include "talk.h"

#include <stdio.h>
#include <string.h>

static struct relock_call call;
static struct relock_conn_id *fence; /* of the number that the calls are for */

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
    relock_call_end(&call);
    fence = relock_conn_id_unref(fence);
    return talk_end(state);
}

/* The server's end of connection 7 is killed before anything else comes. */
static void script_expect_kill(const char *answer)
{
    script_expect(script, "CLIENT KILL ID 7 ADDR /script:7");
    script_answer(script, answer);
}

static int run(void)
{
    return relock_call_run(&call, lanes, soon());
}

static void the_answer_came(void)
{
    int64_t integer;

    assert_true(relock_reply_integer(call.reply, &integer));
    assert_int_equal(integer, 1);
    assert_true(script_played(script));
}

static void is_owed_for_connection_7(void)
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

/* ---- sent, and repeated -------------------------------------------------------------------- */

static void a_call_without_an_answer_is_repeated_after_its_connection_was_killed(void **state)
{
    static const char *const beginnings[] = {"", ":", ":1\r", "*2\r\n:1\r\n$3\r\nab"};

    (void)state;

    for (size_t i = 0; i < 4; i++) {
        call.unanswered = false;
        script_welcome(script, 7);
        talk_expect(&call);
        script_answer(script, beginnings[i]);
        script_close(script);
        script_welcome(script, 8);
        script_expect_kill(":1\r\n");
        talk_expect(&call);
        script_answer(script, ":1\r\n");
        assert_int_equal(run(), RELOCK_OK);
        the_answer_came();
        assert_true(call.unanswered);
        assert_null(fence);
        relock_call_end(&call);
        talk_as(&(struct relock_options){0});
    }
}

static void a_repeat_goes_on_if_nothing_is_killed_or_killing_is_denied(void **state)
{
    static const char *const answers[] = {
        ":0\r\n",
        "-ERR No such client\r\n",
        "-NOPERM this user has no permissions to run the 'client|kill' command\r\n",
    };

    (void)state;

    for (size_t i = 0; i < 3; i++) {
        script_welcome(script, 7);
        talk_expect(&call);
        script_close(script);
        script_welcome(script, 8);
        script_expect_kill(answers[i]);
        talk_expect(&call);
        script_answer(script, ":1\r\n");
        assert_int_equal(run(), RELOCK_OK);
        the_answer_came();
        assert_null(fence);
        relock_call_end(&call);
        talk_as(&(struct relock_options){0});
    }
}

/* After a restart connection 7 is a stranger's; what we had there ended with the run before. */
static void no_connection_is_killed_in_another_run_of_the_server(void **state)
{
    (void)state;

    script_welcome(script, 7);
    talk_expect(&call);
    script_close(script);
    script_welcome_in_run(script, "second", 8);
    script_expect(script, "PING");
    script_answer(script, "+PONG\r\n");
    talk_expect(&call);
    script_answer(script, ":1\r\n");
    assert_int_equal(run(), RELOCK_OK);
    the_answer_came();
    assert_true(call.unanswered);
    assert_null(fence);
}

static void a_kill_refused_for_now_is_retried(void **state)
{
    (void)state;

    fence = relock_conn_id_new(SCRIPT_FIRST_RUN, 7, "/script:7", strlen("/script:7"));
    script_welcome(script, 8);
    script_expect_kill("-LOADING Redis is loading the dataset in memory\r\n");
    script_expect_kill(":1\r\n");
    talk_expect(&call);
    script_answer(script, ":1\r\n");
    assert_int_equal(run(), RELOCK_OK);
    the_answer_came();
    assert_null(fence);
}

static void a_command_without_a_number_is_repeated_without_killing(void **state)
{
    (void)state;

    call.fence = NULL;
    script_welcome(script, 7);
    talk_expect(&call);
    script_close(script);
    script_welcome(script, 8);
    talk_expect(&call);
    script_answer(script, ":1\r\n");
    assert_int_equal(run(), RELOCK_OK);
    the_answer_came();
    assert_true(call.unanswered);
}

static void a_connection_unknown_to_the_server_cannot_be_killed(void **state)
{
    (void)state;

    script_accept(script);
    script_expect(script, "HELLO");
    script_expect(script, "INFO server");
    script_expect(script, "CLIENT INFO");
    script_answer(script, SCRIPT_HELLO "$-1\r\n-ERR unknown subcommand\r\n");
    talk_expect(&call);
    script_close(script);
    script_welcome(script, 8);
    talk_expect(&call);
    script_answer(script, ":1\r\n");
    assert_int_equal(run(), RELOCK_OK);
    the_answer_came();
    assert_true(call.unanswered);
    assert_null(fence);
}

static void each_connection_that_breaks_is_killed_before_the_next_attempt(void **state)
{
    (void)state;

    script_welcome(script, 7);
    talk_expect(&call);
    script_close(script);
    script_welcome(script, 8);
    script_expect_kill(":1\r\n");
    talk_expect(&call);
    script_close(script);
    script_welcome(script, 9);
    script_expect(script, "CLIENT KILL ID 8 ADDR /script:8");
    script_answer(script, ":1\r\n");
    talk_expect(&call);
    script_answer(script, ":1\r\n");
    assert_int_equal(run(), RELOCK_OK);
    the_answer_came();
    assert_null(fence);
}

static void a_refusal_after_an_attempt_without_an_answer_leaves_that_open(void **state)
{
    (void)state;

    script_welcome(script, 7);
    talk_expect(&call);
    script_close(script);
    script_welcome(script, 8);
    script_expect_kill(":1\r\n");
    talk_expect(&call);
    script_answer(script, "-OOM command not allowed\r\n");
    assert_int_equal(run(), RELOCK_E_SERVER);
    assert_true(call.unanswered);
    assert_true(script_played(script));
}

/* ---- sent, outcome unknown ----------------------------------------------------------------- */

static void no_answer_until_the_deadline_is_an_outcome_unknown(void **state)
{
    uint64_t deadline_ms;

    (void)state;

    talk_connect(&call, 7);
    talk_expect(&call);
    script_expect_end(script);
    deadline_ms = in_ms(slow_ms(BRIEF_MS));
    assert_int_equal(relock_call_run(&call, lanes, deadline_ms), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_true(call.unanswered);
    assert_null(call.reply);
    assert_non_null(strstr(call.why, server.label));
    is_owed_for_connection_7();
    assert_true(script_played(script));
}

static void the_next_call_kills_the_fence_of_the_last_first(void **state)
{
    (void)state;

    talk_connect(&call, 7);
    talk_expect(&call);
    script_expect_end(script);
    assert_int_equal(relock_call_run(&call, lanes, in_ms(slow_ms(BRIEF_MS))), RELOCK_E_CONN);
    is_owed_for_connection_7();
    call.unanswered = false;

    script_welcome(script, 8);
    script_expect_kill(":1\r\n");
    talk_expect(&call);
    script_answer(script, ":1\r\n");
    assert_int_equal(run(), RELOCK_OK);
    the_answer_came();
    assert_false(call.unanswered);
    assert_null(fence);
}

static void a_fence_is_owed_until_the_server_has_answered_the_killing(void **state)
{
    (void)state;

    fence = relock_conn_id_new(SCRIPT_FIRST_RUN, 7, "/script:7", strlen("/script:7"));
    script_welcome(script, 8);
    script_expect(script, "CLIENT KILL ID 7 ADDR /script:7");
    script_close(script);
    script_welcome(script, 9);
    script_expect_kill(":1\r\n");
    talk_expect(&call);
    script_answer(script, ":1\r\n");
    assert_int_equal(run(), RELOCK_OK);
    the_answer_came();
    assert_false(call.unanswered); /* the script itself was sent once */
    assert_null(fence);
}

static void a_fence_that_cannot_be_paid_keeps_the_call_from_being_sent(void **state)
{
    (void)state;

    talk_connect(&call, 8);
    fence = relock_conn_id_new(SCRIPT_FIRST_RUN, 7, "/script:7", strlen("/script:7"));
    script_expect(script, "CLIENT KILL ID 7 ADDR /script:7");
    script_expect_end(script);
    assert_int_equal(relock_call_run(&call, lanes, in_ms(slow_ms(BRIEF_MS))), RELOCK_E_CONN);
    assert_false(call.unanswered);
    is_owed_for_connection_7();
    assert_true(script_played(script));
}

/* ---- never sent ---------------------------------------------------------------------------- */

static void without_a_listener_nothing_is_sent(void **state)
{
    (void)state;

    talk_as(&(struct relock_options){.url = "unix:///nonexistent/socket"});
    assert_int_equal(relock_call_run(&call, lanes, in_ms(20)), RELOCK_E_CONN);
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
    assert_int_equal(relock_call_run(&call, lanes, deadline_ms), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_false(call.unanswered);
    assert_non_null(strstr(call.why, "busy"));
    for (int i = 0; i < 2; i++)
        relock_lanes_leave(lanes, others[i]);
}

static void a_connection_that_ended_while_idle_is_made_again(void **state)
{
    (void)state;

    script_welcome(script, 7);
    talk_expect(&call);
    script_answer(script, ":1\r\n");
    script_close(script);
    assert_int_equal(run(), RELOCK_OK);
    the_answer_came();
    relock_call_end(&call);

    script_welcome(script, 8);
    talk_expect(&call);
    script_answer(script, ":1\r\n");
    assert_int_equal(run(), RELOCK_OK);
    the_answer_came();
    assert_false(call.unanswered);
    assert_null(fence);
    assert_int_equal(relock_lanes_reconnects(lanes), 1);
}

#define CALL_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CALL_TEST(a_call_without_an_answer_is_repeated_after_its_connection_was_killed),
        CALL_TEST(a_repeat_goes_on_if_nothing_is_killed_or_killing_is_denied),
        CALL_TEST(no_connection_is_killed_in_another_run_of_the_server),
        CALL_TEST(a_kill_refused_for_now_is_retried),
        CALL_TEST(a_command_without_a_number_is_repeated_without_killing),
        CALL_TEST(a_connection_unknown_to_the_server_cannot_be_killed),
        CALL_TEST(each_connection_that_breaks_is_killed_before_the_next_attempt),
        CALL_TEST(a_refusal_after_an_attempt_without_an_answer_leaves_that_open),
        CALL_TEST(no_answer_until_the_deadline_is_an_outcome_unknown),
        CALL_TEST(the_next_call_kills_the_fence_of_the_last_first),
        CALL_TEST(a_fence_is_owed_until_the_server_has_answered_the_killing),
        CALL_TEST(a_fence_that_cannot_be_paid_keeps_the_call_from_being_sent),
        CALL_TEST(without_a_listener_nothing_is_sent),
        CALL_TEST(while_all_connections_are_busy_nothing_is_sent),
        CALL_TEST(a_connection_that_ended_while_idle_is_made_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
