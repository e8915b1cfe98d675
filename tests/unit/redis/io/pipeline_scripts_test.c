/* Scripts that the server lacks when the I/O thread calls them. */
#include "jobs.h"

#include <string.h>

#define MISSING "-NOSCRIPT No matching script. Please use EVAL.\r\n"

static const struct relock_call look = {
    .script = &relock_script_hexists,
    .key = {"orders", 6},
    .args = {{"id:7", 4}},
    .n_args = 1,
};

/* Up to the reply to the call that follows the script. */
static void call_missing_script(void)
{
    jobs_add(&renew);
    script_welcome(script, 7);
    talk_expect(&renew);
    script_answer(script, MISSING);
    script_expect(script, "SCRIPT LOAD *");
    talk_expect(&renew);
}

static void call_missing_script_before_another(void)
{
    jobs_add(&renew);
    jobs_add(&extend);
    script_welcome(script, 7);
    talk_expect(&renew);
    talk_expect(&extend);
    script_answer(script, MISSING ":5\r\n");
    script_expect(script, "SCRIPT LOAD *");
    talk_expect(&renew);
}

static void a_missing_script_is_loaded_and_its_call_repeated(void **state)
{
    (void)state;
    call_missing_script_before_another();
    script_answer(script, "$1\r\nx\r\n:1\r\n");
    jobs_run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_OK);
    assert_int_equal(jobs[0].integer, 1);
    assert_int_equal(jobs[1].n_answers, 1);
    assert_int_equal(jobs[1].integer, 5);
}

static void a_script_that_cannot_be_loaded_is_a_refusal(void **state)
{
    (void)state;
    call_missing_script();
    script_answer(script, "-OOM no memory to load\r\n" MISSING);
    script_expect(script, "EVAL * 1 orders 60000 id:7");
    script_answer(script, "-OOM no memory to run\r\n");
    jobs_run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_E_SERVER);
    assert_non_null(strstr(jobs[0].error, "OOM no memory to run"));
}

/* Another command, which is sent behind it, has its own reply. */
static void a_script_that_may_not_be_loaded_is_sent_whole(void **state)
{
    (void)state;
    call_missing_script_before_another();
    script_answer(script, "-NOPERM no right to load\r\n" MISSING);
    script_expect(script, "EVAL * 1 orders 60000 id:7");
    script_answer(script, ":1\r\n");
    jobs_run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_OK);
    assert_int_equal(jobs[0].integer, 1);
    assert_int_equal(jobs[1].integer, 5);
}

static void a_script_that_may_not_be_sent_whole_is_a_refusal(void **state)
{
    (void)state;
    call_missing_script();
    script_answer(script, "-NOPERM no right to load\r\n" MISSING);
    script_expect(script, "EVAL * 1 orders 60000 id:7");
    script_answer(script, "-NOPERM no right to eval\r\n");
    jobs_run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_E_AUTH);
    assert_non_null(strstr(jobs[0].error, "no right to eval"));
}

/* No server answers so, but a proxy may. The command behind it has its own reply. */
static void a_command_without_a_script_brings_none(void **state)
{
    (void)state;
    jobs_add(&look);
    jobs_add(&renew);
    script_welcome(script, 7);
    script_expect(script, "HEXISTS orders id:7");
    talk_expect(&renew);
    script_answer(script, MISSING ":1\r\n");
    jobs_run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_E_SERVER);
    assert_int_equal(jobs[1].result, RELOCK_OK);
    assert_int_equal(jobs[1].integer, 1);
}

static void a_repeated_call_ends_with_its_connection(void **state)
{
    (void)state;
    call_missing_script();
    script_close(script);
    script_welcome(script, 8);
    jobs_run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_E_CONN);
}

static void on_up_ping(void *arg)
{
    (void)arg;
    relock_pipeline_ping(pipeline);
}

/* No server answers so, but a proxy or a stream that is out of step may. */
static void a_ping_that_is_refused_like_a_script_is_not_repeated(void **state)
{
    (void)state;
    jobs_make_pipeline(on_up_ping);
    script_welcome(script, 7);
    script_expect(script, "PING");
    script_answer(script, MISSING);
    script_close(script);
    script_welcome(script, 8);
    script_expect(script, "PING");
    jobs_run();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOBS_TEST(a_missing_script_is_loaded_and_its_call_repeated),
        JOBS_TEST(a_script_that_cannot_be_loaded_is_a_refusal),
        JOBS_TEST(a_script_that_may_not_be_loaded_is_sent_whole),
        JOBS_TEST(a_script_that_may_not_be_sent_whole_is_a_refusal),
        JOBS_TEST(a_command_without_a_script_brings_none),
        JOBS_TEST(a_repeated_call_ends_with_its_connection),
        JOBS_TEST(a_ping_that_is_refused_like_a_script_is_not_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
