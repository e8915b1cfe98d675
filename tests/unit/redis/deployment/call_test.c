/* Running a script before a deadline: the replies of the server. */
#include "calls.h"

#include "redis/deployment/run.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <string.h>

/* ---- sending ------------------------------------------------------------------------------- */

static void write_call(enum relock_call_form form, struct relock_buffer *buffer)
{
    relock_call_write_head(call.script, 1, call.n_args, form, buffer);
    relock_call_write_args(&call, false, buffer);
}

static void a_call_is_an_evalsha_with_one_key(void **state)
{
    struct relock_buffer buffer = {0};
    char bytes[256];

    (void)state;

    snprintf(bytes, sizeof(bytes),
             "*7\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$6\r\norders\r\n"
             "$5\r\n60000\r\n$4\r\nid:7\r\n$1\r\n1\r\n",
             relock_script_lock.sha1);
    write_call(RELOCK_CALL_BY_HASH, &buffer);
    assert_int_equal(buffer.len, strlen(bytes));
    assert_memory_equal(buffer.data, bytes, buffer.len);

    relock_buffer_clear(&buffer);
    call.n_args = 0;
    write_call(RELOCK_CALL_BY_HASH, &buffer);
    assert_memory_equal(buffer.data, "*4\r\n", 4);
    relock_buffer_deinit(&buffer);
}

static void a_call_without_a_script_is_a_plain_command(void **state)
{
    static const char hexists[] = "*3\r\n$7\r\nHEXISTS\r\n$6\r\norders\r\n$4\r\nid:7\r\n";
    static const char getrange[] =
        "*4\r\n$8\r\nGETRANGE\r\n$6\r\norders\r\n$1\r\n0\r\n$2\r\n64\r\n";
    struct relock_buffer buffer = {0};

    (void)state;

    call = (struct relock_call){.script = &relock_script_hexists, .key = {"orders", 6}};
    call.args[call.n_args++] = (struct relock_text){"id:7", 4};
    write_call(RELOCK_CALL_BY_HASH, &buffer);
    assert_int_equal(buffer.len, strlen(hexists));
    assert_memory_equal(buffer.data, hexists, buffer.len);

    relock_buffer_clear(&buffer);
    call = (struct relock_call){.script = &relock_script_getrange, .key = {"orders", 6}};
    call.args[call.n_args++] = (struct relock_text){"0", 1};
    call.args[call.n_args++] = (struct relock_text){"64", 2};
    write_call(RELOCK_CALL_BY_HASH, &buffer);
    assert_int_equal(buffer.len, strlen(getrange));
    assert_memory_equal(buffer.data, getrange, buffer.len);
    relock_buffer_deinit(&buffer);
}

static void a_script_sent_whole_is_an_eval_with_one_key(void **state)
{
    static const char tail[] = "\r\n$1\r\n1\r\n$6\r\norders\r\n$5\r\n60000\r\n$4\r\nid:7\r\n"
                               "$1\r\n1\r\n";
    struct relock_buffer buffer = {0};
    size_t len = strlen(relock_script_lock.body);
    char head[64];

    (void)state;

    snprintf(head, sizeof(head), "*7\r\n$4\r\nEVAL\r\n$%zu\r\n", len);
    write_call(RELOCK_CALL_WHOLE, &buffer);
    assert_int_equal(buffer.len, strlen(head) + len + strlen(tail));
    assert_memory_equal(buffer.data, head, strlen(head));
    assert_memory_equal(buffer.data + strlen(head), relock_script_lock.body, len);
    assert_memory_equal(buffer.data + strlen(head) + len, tail, strlen(tail));
    relock_buffer_deinit(&buffer);
}

static void loading_a_script_sends_all_of_it(void **state)
{
    struct relock_buffer buffer = {0};
    size_t len = strlen(relock_script_lock.body);
    char head[64];

    (void)state;

    snprintf(head, sizeof(head), "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n", len);
    relock_call_write_load(&relock_script_lock, &buffer);
    assert_int_equal(buffer.len, strlen(head) + len + 2);
    assert_memory_equal(buffer.data, head, strlen(head));
    assert_memory_equal(buffer.data + strlen(head), relock_script_lock.body, len);
    relock_buffer_deinit(&buffer);
}

static void all_scripts_are_sent_though_some_are_refused(void **state)
{
    char why[RELOCK_WHY_MAX];

    (void)state;

    script_welcome(script, 7);
    for (size_t i = 0; relock_scripts[i]; i++)
        script_expect(script, "SCRIPT LOAD *");
    script_expect(script, "INFO memory");
    for (size_t i = 0; relock_scripts[i]; i++)
        script_answer(script, i % 2 == 0 ? "$2\r\nid\r\n" : "-NOPERM no right to load\r\n");
    script_answer(script, "-NOPERM no right to info\r\n");
    assert_int_equal(relock_call_load_all(atomic_load(&topology->nodes), soon(), why), RELOCK_OK);

    server_answers(":1\r\n");
    call_returns(1);
}

static void a_connection_that_breaks_while_scripts_are_loaded_is_an_error(void **state)
{
    char why[RELOCK_WHY_MAX];

    (void)state;

    script_welcome(script, 7);
    script_expect(script, "SCRIPT LOAD *");
    script_answer(script, "$2\r\nid\r\n");
    script_close(script);
    assert_int_equal(
        relock_call_load_all(atomic_load(&topology->nodes), in_ms(slow_ms(BRIEF_MS)), why),
        RELOCK_E_CONN);
    assert_non_null(strstr(why, server.label));
}

/* ---- replies ------------------------------------------------------------------------------- */

static void one_connection_serves_many_calls(void **state)
{
    (void)state;

    script_welcome(script, 7);
    for (int64_t i = 0; i < 5; i++) {
        char reply[16];

        talk_expect(&call);
        snprintf(reply, sizeof(reply), ":%d\r\n", (int)i);
        script_answer_bytewise(script, reply);
        call_returns(i);
        assert_false(call.unanswered);
        relock_call_end(&call);
        assert_null(call.reply);
    }
}

static void a_script_that_the_server_lacks_is_loaded(void **state)
{
    (void)state;

    script_welcome(script, 7);
    server_answers("-NOSCRIPT No matching script. Please use EVAL.\r\n");
    script_expect(script, "SCRIPT LOAD *");
    server_answers("$2\r\nid\r\n$-1\r\n");
    assert_int_equal(run_call(), RELOCK_OK);
    assert_true(relock_reply_is_nil(call.reply));
    assert_false(call.unanswered);
}

static void the_reason_that_stops_a_script_is_reported(void **state)
{
    (void)state;

    script_welcome(script, 7);
    server_answers("-NOSCRIPT No matching script. Please use EVAL.\r\n");
    script_expect(script, "SCRIPT LOAD *");
    server_answers("-OOM no memory to load\r\n-NOSCRIPT No matching script.\r\n");
    script_expect(script, "EVAL * 1 orders 60000 id:7 1");
    script_answer(script, "-OOM no memory to run\r\n");
    assert_int_equal(run_call(), RELOCK_E_SERVER);
    assert_non_null(strstr(call.why, "OOM no memory to run"));
}

static void a_script_that_may_not_be_loaded_is_sent_whole(void **state)
{
    (void)state;

    script_welcome(script, 7);
    for (int i = 0; i < 2; i++) {
        server_answers("-NOSCRIPT No matching script. Please use EVAL.\r\n");
        script_expect(script, "SCRIPT LOAD *");
        server_answers("-ERR unknown command 'SCRIPT'\r\n-NOSCRIPT No matching script.\r\n");
        script_expect(script, "EVAL * 1 orders 60000 id:7 1");
        script_answer(script, i == 0 ? "$-1\r\n" : "-NOPERM no right to eval\r\n");
    }
    assert_int_equal(run_call(), RELOCK_OK);
    assert_true(relock_reply_is_nil(call.reply));
    assert_false(call.unanswered);
    relock_call_end(&call);
    assert_int_equal(run_call(), RELOCK_E_AUTH);
    assert_non_null(strstr(call.why, "NOPERM no right to eval"));
}

/* Taking the refused load for a refusal of the call would leak a granted lock. */
static void a_script_loaded_meanwhile_by_another_client_is_used(void **state)
{
    (void)state;

    script_welcome(script, 7);
    server_answers("-NOSCRIPT No matching script. Please use EVAL.\r\n");
    script_expect(script, "SCRIPT LOAD *");
    server_answers("-NOPERM no right to load\r\n$-1\r\n");
    assert_int_equal(run_call(), RELOCK_OK);
    assert_true(relock_reply_is_nil(call.reply));
}

/* An operator may flush the scripts just after one was loaded. */
static void a_script_that_does_not_stay_loaded_is_sent_whole(void **state)
{
    (void)state;

    script_welcome(script, 7);
    server_answers("-NOSCRIPT No matching script. Please use EVAL.\r\n");
    script_expect(script, "SCRIPT LOAD *");
    server_answers("$2\r\nid\r\n-NOSCRIPT No matching script.\r\n");
    script_expect(script, "EVAL * 1 orders 60000 id:7 1");
    script_answer(script, "$-1\r\n");
    assert_int_equal(run_call(), RELOCK_OK);
    assert_true(relock_reply_is_nil(call.reply));
}

static void a_script_that_is_always_missing_is_an_error(void **state)
{
    (void)state;

    script_welcome(script, 7);
    script_answer_all(script, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    assert_int_equal(run_call(), RELOCK_E_SERVER);
    assert_non_null(strstr(call.why, "NOSCRIPT"));
    assert_false(call.unanswered);
    talk_hang_up();
}

static void a_command_is_retried_while_the_server_is_loading(void **state)
{
    static const char *const refusals[] = {
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-BUSY Redis is busy running a script.\r\n",
    };

    (void)state;

    script_welcome(script, 7);
    for (size_t i = 0; i < 2; i++)
        server_answers(refusals[i]);
    server_answers(":-2\r\n");
    call_returns(-2);
    assert_false(call.unanswered); /* a refused command did not run */
}

/* After a failover the address may belong to another server, so the call connects again. */
static void a_call_refused_by_a_replica_is_retried_on_a_new_connection(void **state)
{
    (void)state;

    script_welcome(script, 7);
    server_answers("-READONLY You can't write against a read only replica.\r\n");
    script_expect_end(script);
    script_welcome(script, 8);
    server_answers(":-2\r\n");
    call_returns(-2);
    assert_false(call.unanswered);
}

static void a_replica_answers_the_login(void)
{
    script_accept(script);
    talk_expect_login();
    script_answer(script, "*2\r\n$4\r\nrole\r\n$7\r\nreplica\r\n$-1\r\n$-1\r\n");
    script_expect_end(script);
}

static void a_replica_is_recognized_at_login_and_retried(void **state)
{
    (void)state;

    a_replica_answers_the_login();
    a_replica_answers_the_login();
    script_welcome(script, 8);
    server_answers(":-2\r\n");
    call_returns(-2);
    assert_false(call.unanswered);
}

static void a_server_that_keeps_loading_is_a_refusal(void **state)
{
    int r;

    (void)state;

    talk_connect(&call, 7);
    script_answer_all(script, "-LOADING Redis is loading the dataset in memory\r\n");
    r = relock_call_run(&call, topology, in_ms(slow_ms(BRIEF_MS)));
    assert_null(call.reply);
    if (call.unanswered) { /* the last reply came after the deadline */
        assert_int_equal(r, RELOCK_E_CONN);
    } else {
        assert_int_equal(r, RELOCK_E_SERVER);
        assert_non_null(strstr(call.why, "LOADING"));
    }
    talk_hang_up();
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void a_refusal_is_final_and_says_why(void **state)
{
    static const struct {
        const char *error;
        int result;
        const char *why; /* how the reason begins */
    } refusals[] = {
        {"-NOPERM no permissions to run the 'evalsha' command\r\n", RELOCK_E_AUTH,
         "NOPERM no permissions to run the 'evalsha' command; see docs/wire.md#rights"},
        {"-NOAUTH Authentication required.\r\n", RELOCK_E_AUTH, "NOAUTH Authentication required."},
        {"-ERR Error running script (call to f_9a1e): @user_script:3: @user_script: 3: "
         "-NOPERM this user has no permissions to run the 'hset' command\r\n",
         RELOCK_E_AUTH, "NOPERM: this user may not run 'hset', which the script "},
        {"-WRONGTYPE Operation against a key\r\n", RELOCK_E_SERVER,
         "WRONGTYPE: another kind of lock, or other data, has this name"},
        {"-OOM command not allowed\r\n", RELOCK_E_SERVER, "OOM command not allowed"},
        {"-MOVED 12182 127.0.0.1:7001\r\n", RELOCK_E_SERVER,
         "MOVED 12182 127.0.0.1:7001: this is a node of a cluster"},
    };

    (void)state;

    script_welcome(script, 7);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        server_answers(refusals[i].error);
        assert_int_equal(run_call(), refusals[i].result);
        assert_null(call.reply);
        assert_false(call.unanswered);
        assert_non_null(strstr(call.why, server.label));
        assert_ptr_equal(strstr(call.why, refusals[i].why), strstr(call.why, ": ") + 2);
    }
}

static void a_refused_login_is_final(void **state)
{
    (void)state;

    talk_as(&(struct relock_options){.user = "u", .password = "hidden"});
    script_accept(script);
    script_expect(script, "AUTH u hidden");
    script_answer(script, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    talk_expect_login();
    script_expect_end(script);
    assert_int_equal(run_call(), RELOCK_E_AUTH);
    assert_non_null(strstr(call.why, "WRONGPASS"));
    assert_null(strstr(call.why, "hidden"));
    assert_false(call.unanswered);
}

/* It may answer bytes of another program on the connection. */
static void an_unknown_error_is_believed_over_a_second_connection_only(void **state)
{
    static const struct {
        const char *reply;
        int result;
    } second[] = {{"$-1\r\n", RELOCK_OK}, {"-ERR really\r\n", RELOCK_E_SERVER}};

    (void)state;

    for (size_t i = 0; i < sizeof(second) / sizeof(*second); i++) {
        calls_acquire();
        script_welcome(script, 7);
        server_answers("-ERR unknown command 'relock:'\r\n");
        script_expect_end(script);
        script_welcome(script, 8);
        server_answers(second[i].reply);
        assert_int_equal(run_call(), second[i].result);
        assert_true(call.unanswered);
        assert_true(script_played(script));
        relock_call_end(&call);
        talk_as(&(struct relock_options){0});
    }
}

static void a_login_refused_for_now_is_retried(void **state)
{
    (void)state;

    talk_as(&(struct relock_options){.password = "hidden"});
    script_accept(script);
    script_expect(script, "AUTH hidden");
    script_answer(script, "-ERR max number of clients reached\r\n");
    script_close(script);
    script_accept(script);
    script_expect(script, "AUTH hidden");
    talk_expect_login();
    script_answer(script, "+OK\r\n" SCRIPT_HELLO "$-1\r\n$-1\r\n");
    server_answers(":1\r\n");
    assert_int_equal(run_call(), RELOCK_OK);
    assert_false(call.unanswered);
}

/* ---- many calls at once -------------------------------------------------------------------- */

struct pair {
    struct relock_call calls[2];
    char why[RELOCK_WHY_MAX];
};

static struct pair pair_of_calls(void)
{
    struct pair pair = {.calls = {{.script = &relock_script_look, .key = {"orders", 6}},
                                  {.script = &relock_script_look, .key = {"goods", 5}}}};

    return pair;
}

/* Both come before the first is answered. */
static void server_expects_both(void)
{
    char words[128];

    (void)snprintf(words, sizeof(words), "EVALSHA %s 1 orders", relock_script_look.sha1);
    script_expect(script, words);
    (void)snprintf(words, sizeof(words), "EVALSHA %s 1 goods", relock_script_look.sha1);
    script_expect(script, words);
}

static int try_both(struct pair *pair)
{
    return relock_call_try_all(pair->calls, 2, topology, soon(), pair->why);
}

/* The first has 1, the second 2. Ends them. */
static void assert_each_has_its_reply(struct pair *pair)
{
    for (int64_t i = 0; i < 2; i++) {
        int64_t integer = 0;

        assert_true(relock_reply_integer(relock_reply_at(pair->calls[i].reply, 0), &integer));
        assert_int_equal(integer, i + 1);
        relock_call_end(&pair->calls[i]);
    }
}

static void many_calls_are_sent_before_the_first_is_answered(void **state)
{
    struct pair pair = pair_of_calls();

    (void)state;
    script_welcome(script, 7);
    server_expects_both();
    script_answer(script, "*1\r\n:1\r\n");
    script_answer(script, "*1\r\n:2\r\n");
    assert_int_equal(try_both(&pair), RELOCK_OK);
    assert_each_has_its_reply(&pair);
}

static void a_call_that_is_refused_leaves_the_others_their_replies(void **state)
{
    struct pair pair = pair_of_calls();

    (void)state;
    script_welcome(script, 7);
    server_expects_both();
    script_answer(script, "-NOPERM no right to it\r\n");
    script_answer(script, "*0\r\n");
    assert_int_equal(try_both(&pair), RELOCK_OK);
    assert_null(pair.calls[0].reply);
    assert_non_null(pair.calls[1].reply);
    relock_call_end(&pair.calls[1]);
}

static void calls_on_a_connection_that_breaks_are_sent_once_more(void **state)
{
    struct pair pair = pair_of_calls();

    (void)state;
    script_welcome(script, 7);
    server_expects_both();
    script_answer(script, "*0\r\n");
    script_close(script);
    script_welcome(script, 8);
    server_expects_both();
    script_answer(script, "*0\r\n");
    script_answer(script, "*0\r\n");
    assert_int_equal(try_both(&pair), RELOCK_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(pair.calls[i].reply);
        relock_call_end(&pair.calls[i]);
    }
}

static void calls_that_break_off_twice_have_no_replies(void **state)
{
    struct pair pair = pair_of_calls();

    (void)state;
    for (unsigned id = 7; id < 9; id++) {
        script_welcome(script, id);
        server_expects_both();
        script_answer(script, "*0\r\n");
        script_close(script);
    }
    assert_int_equal(try_both(&pair), RELOCK_OK);
    assert_null(pair.calls[0].reply);
    assert_null(pair.calls[1].reply);
}

/* A reply to bytes of another program, among those of many calls: each later call would get the
 * reply of the one before it. */
static void a_foreign_reply_does_not_give_calls_the_replies_of_others(void **state)
{
    struct pair pair = pair_of_calls();

    (void)state;
    script_welcome(script, 7);
    server_expects_both();
    script_answer(script, "-ERR unknown command 'relock:'\r\n");
    script_answer(script, "*1\r\n:1\r\n");
    script_expect_end(script);
    script_welcome(script, 8);
    server_expects_both();
    script_answer(script, "*1\r\n:1\r\n");
    script_answer(script, "*1\r\n:2\r\n");
    assert_int_equal(try_both(&pair), RELOCK_OK);
    assert_true(script_played(script));
    assert_each_has_its_reply(&pair);
}

/* Then it is no foreign one: relock_call_run() tells why the call is refused. */
static void an_unknown_error_to_one_of_many_calls_is_believed_the_second_time(void **state)
{
    struct pair pair = pair_of_calls();

    (void)state;
    for (unsigned id = 7; id < 9; id++) {
        script_welcome(script, id);
        server_expects_both();
        script_answer(script, "-ERR really\r\n");
        script_answer(script, "*0\r\n");
        if (id == 7)
            script_expect_end(script);
    }
    assert_int_equal(try_both(&pair), RELOCK_OK);
    assert_true(script_played(script));
    assert_null(pair.calls[0].reply);
    assert_non_null(pair.calls[1].reply);
    relock_call_end(&pair.calls[1]);
}

static void calls_without_an_answer_end_at_the_deadline(void **state)
{
    struct pair pair = pair_of_calls();

    (void)state;
    script_welcome(script, 7);
    server_expects_both();
    script_answer(script, "*0\r\n");
    script_expect_end(script);
    assert_int_equal(relock_call_try_all(pair.calls, 2, topology, in_ms(100), pair.why),
                     RELOCK_E_CONN);
    assert_null(pair.calls[0].reply);
    assert_string_not_equal(pair.why, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CALL_TEST(a_call_is_an_evalsha_with_one_key),
        CALL_TEST(a_call_without_a_script_is_a_plain_command),
        CALL_TEST(a_script_sent_whole_is_an_eval_with_one_key),
        CALL_TEST(loading_a_script_sends_all_of_it),
        CALL_TEST(all_scripts_are_sent_though_some_are_refused),
        CALL_TEST(a_connection_that_breaks_while_scripts_are_loaded_is_an_error),
        CALL_TEST(one_connection_serves_many_calls),
        CALL_TEST(a_script_that_the_server_lacks_is_loaded),
        CALL_TEST(a_script_that_may_not_be_loaded_is_sent_whole),
        CALL_TEST(the_reason_that_stops_a_script_is_reported),
        CALL_TEST(a_script_loaded_meanwhile_by_another_client_is_used),
        CALL_TEST(a_script_that_does_not_stay_loaded_is_sent_whole),
        CALL_TEST(a_script_that_is_always_missing_is_an_error),
        CALL_TEST(a_command_is_retried_while_the_server_is_loading),
        CALL_TEST(a_call_refused_by_a_replica_is_retried_on_a_new_connection),
        CALL_TEST(a_replica_is_recognized_at_login_and_retried),
        CALL_TEST(a_server_that_keeps_loading_is_a_refusal),
        CALL_TEST(a_refusal_is_final_and_says_why),
        CALL_TEST(a_refused_login_is_final),
        CALL_TEST(an_unknown_error_is_believed_over_a_second_connection_only),
        CALL_TEST(a_login_refused_for_now_is_retried),
        CALL_TEST(many_calls_are_sent_before_the_first_is_answered),
        CALL_TEST(a_call_that_is_refused_leaves_the_others_their_replies),
        CALL_TEST(calls_on_a_connection_that_breaks_are_sent_once_more),
        CALL_TEST(calls_that_break_off_twice_have_no_replies),
        CALL_TEST(a_foreign_reply_does_not_give_calls_the_replies_of_others),
        CALL_TEST(an_unknown_error_to_one_of_many_calls_is_believed_the_second_time),
        CALL_TEST(calls_without_an_answer_end_at_the_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
