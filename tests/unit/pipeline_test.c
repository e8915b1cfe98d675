/* Scripts that the I/O thread runs, and the replies of a server. */
#include "redis/pipeline.h"

#include "base/clock.h"
#include "base/gate.h"
#include "base/status.h"
#include "redis/loop.h"
#include "redis/reply.h"
#include "support/alloc.h"
#include "talk.h"

#include <stdlib.h>
#include <string.h>

#define MISSING "-NOSCRIPT No matching script. Please use EVAL.\r\n"

static const struct relock_call renew = {
    .script = &relock_script_renew,
    .key = {"orders", 6},
    .args = {{"60000", 5}, {"id:7", 4}},
    .n_args = 2,
};
static const struct relock_call extend = {
    .script = &relock_script_extend,
    .key = {"orders", 6},
    .args = {{"id:7", 4}, {"1", 1}, {"5000", 4}},
    .n_args = 3,
};

static const struct relock_call look = {
    .script = &relock_script_hexists,
    .key = {"orders", 6},
    .args = {{"id:7", 4}},
    .n_args = 1,
};

/* A call that the I/O thread sends once, when it is connected. */
struct job {
    const struct relock_call *call;
    bool is_sent;
    unsigned n_answers;
    int result;
    int64_t integer;
    char error[RELOCK_WHY_MAX];
};

/* Each computed pause, by the pause before it. */
static struct {
    uint64_t previous_ms[8];
    size_t n;
} pauses;

uint64_t __wrap_relock_backoff_ms(uint64_t previous_ms, uint64_t min_ms, uint64_t max_ms);
uint64_t __real_relock_backoff_ms(uint64_t previous_ms, uint64_t min_ms, uint64_t max_ms);

uint64_t __wrap_relock_backoff_ms(uint64_t previous_ms, uint64_t min_ms, uint64_t max_ms)
{
    if (pauses.n < sizeof(pauses.previous_ms) / sizeof(*pauses.previous_ms))
        pauses.previous_ms[pauses.n++] = previous_ms;
    return __real_relock_backoff_ms(previous_ms, min_ms, max_ms);
}

static struct relock_loop *loop;
static struct relock_pipeline *pipeline;
static struct relock_gate all_answered;
static struct job jobs[2];
static size_t n_jobs;
static size_t n_answered;

static void on_answer(void *arg, int result, const struct redisReply *reply)
{
    struct job *job = arg;

    job->n_answers++;
    job->result = result;
    if (result == RELOCK_OK)
        (void)relock_reply_integer(reply, &job->integer);
    else if (reply)
        strncpy(job->error, relock_reply_error(reply), sizeof(job->error) - 1);
    if (++n_answered == n_jobs)
        relock_gate_open(&all_answered);
}

static void on_up(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < n_jobs; i++) {
        if (jobs[i].is_sent)
            continue;
        jobs[i].is_sent = true;
        jobs[i].result = relock_pipeline_call(pipeline, jobs[i].call, on_answer, &jobs[i]);
    }
}

static uint64_t never(void *arg)
{
    (void)arg;
    return RELOCK_NEVER;
}

static void make_pipeline(relock_pipeline_up_fn *up)
{
    pipeline = relock_pipeline_free(pipeline);
    assert_int_equal(relock_pipeline_new(loop, &server, slow_ms(SOON_MS), up, NULL, &pipeline),
                     RELOCK_OK);
}

static int begin(void **state)
{
    int r = talk_begin(state);

    memset(jobs, 0, sizeof(jobs));
    memset(&pauses, 0, sizeof(pauses));
    n_jobs = 0;
    n_answered = 0;
    relock_gate_init(&all_answered);
    assert_int_equal(relock_loop_new(never, NULL, &loop), RELOCK_OK);
    make_pipeline(on_up);
    return r;
}

static int end(void **state)
{
    relock_loop_stop(loop);
    pipeline = relock_pipeline_free(pipeline);
    loop = relock_loop_free(loop);
    return talk_end(state);
}

static void add_job(const struct relock_call *call)
{
    jobs[n_jobs++].call = call;
}

/* Sends the jobs and waits until each has an answer and the script has been played. */
static void run(void)
{
    relock_pipeline_open(pipeline);
    assert_int_equal(relock_loop_start(loop), RELOCK_OK);
    if (n_jobs > 0)
        assert_true(relock_gate_wait(&all_answered, soon()));
    assert_true(script_played(script));
    relock_loop_stop(loop);
}

static void a_call_has_one_answer(void **state)
{
    (void)state;
    add_job(&renew);
    script_welcome(script, 7);
    talk_expect(&renew);
    script_answer(script, ":1\r\n");
    run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_OK);
    assert_int_equal(jobs[0].integer, 1);
}

/* Up to the reply to the call that follows the script. */
static void call_missing_script(void)
{
    add_job(&renew);
    script_welcome(script, 7);
    talk_expect(&renew);
    script_answer(script, MISSING);
    script_expect(script, "SCRIPT LOAD *");
    talk_expect(&renew);
}

static void call_missing_script_before_another(void)
{
    add_job(&renew);
    add_job(&extend);
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
    run();
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
    run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_E_SERVER);
    assert_non_null(strstr(jobs[0].error, "NOSCRIPT"));
}

/* Another command, which is sent behind it, has its own reply. */
static void a_script_that_may_not_be_loaded_is_sent_whole(void **state)
{
    (void)state;
    call_missing_script_before_another();
    script_answer(script, "-NOPERM no right to load\r\n" MISSING);
    script_expect(script, "EVAL * 1 orders 60000 id:7");
    script_answer(script, ":1\r\n");
    run();
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
    run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_E_AUTH);
    assert_non_null(strstr(jobs[0].error, "no right to eval"));
}

/* No server answers so, but a proxy may. The command behind it has its own reply. */
static void a_command_without_a_script_brings_none(void **state)
{
    (void)state;
    add_job(&look);
    add_job(&renew);
    script_welcome(script, 7);
    script_expect(script, "HEXISTS orders id:7");
    talk_expect(&renew);
    script_answer(script, MISSING ":1\r\n");
    run();
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
    run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_E_CONN);
}

/* Sends the command again over each connection. */
static void on_refused(void *arg, int result, const struct redisReply *reply)
{
    (void)reply;
    assert_int_equal(result, RELOCK_E_SERVER);
    ((struct job *)arg)->is_sent = false;
}

static void on_up_again(void *arg)
{
    (void)arg;
    if (!jobs[0].is_sent)
        assert_int_equal(relock_pipeline_call(pipeline, &renew, on_refused, &jobs[0]), RELOCK_OK);
    jobs[0].is_sent = true;
}

/* A former master replies, but every command fails: the connection is made again, with growing
 * pauses. */
static void a_server_that_is_no_master_is_tried_with_growing_pauses(void **state)
{
    enum { TRIES = 4 };

    (void)state;
    make_pipeline(on_up_again);
    for (unsigned i = 0; i < TRIES; i++) {
        script_welcome(script, i);
        talk_expect(&renew);
        script_answer(script, "-READONLY You can't write against a read only replica.\r\n");
        script_expect_end(script);
    }
    script_accept(script);
    run();
    assert_int_equal(pauses.n, TRIES);
    assert_int_equal(pauses.previous_ms[0], 0);
    for (size_t i = 1; i < TRIES; i++)
        assert_true(pauses.previous_ms[i] > 0);
}

/* After two commands with such a key, the buffer frees its memory. */
#define LONG_KEY 40000

static struct relock_call long_call;

/* A ping that fails for lack of memory, with commands right behind it. */
static void ping_without_memory(void *arg, int result, const struct redisReply *reply)
{
    (void)arg;
    assert_int_equal(result, RELOCK_OK);
    if (relock_reply_is_nil(reply))
        return;                   /* another command is in flight */
    alloc_fail(ALLOC_MINE, 2, 1); /* the first is for the reply to come */
    relock_pipeline_ping(pipeline);
    assert_int_equal(alloc_stop(), 1);
    for (size_t i = 0; i < n_jobs; i++)
        jobs[i].result = relock_pipeline_call(pipeline, jobs[i].call, on_answer, &jobs[i]);
}

static void on_up_with_a_long_call(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++)
        assert_int_equal(relock_pipeline_call(pipeline, &long_call, ping_without_memory, NULL),
                         RELOCK_OK);
}

static void a_ping_without_memory_takes_no_reply(void **state)
{
    char *key = malloc(LONG_KEY);

    (void)state;
    if (!alloc_is_ours()) {
        free(key);
        skip();
    }
    memset(key, 'k', LONG_KEY);
    long_call = renew;
    long_call.key = (struct relock_text){key, LONG_KEY};
    make_pipeline(on_up_with_a_long_call);
    add_job(&renew);
    add_job(&extend);
    script_welcome(script, 7);
    script_expect(script, "EVALSHA * 1 * 60000 id:7");
    script_expect(script, "EVALSHA * 1 * 60000 id:7");
    script_answer(script, "$-1\r\n:1\r\n");
    talk_expect(&renew);
    talk_expect(&extend);
    script_answer(script, ":2\r\n:5\r\n");
    run();
    free(key);
    assert_int_equal(jobs[0].integer, 2);
    assert_int_equal(jobs[1].integer, 5);
}

/* No server answers so, but a proxy or a stream that is out of step may. */
static void on_up_ping(void *arg)
{
    (void)arg;
    relock_pipeline_ping(pipeline);
}

static void on_up_ping_first(void *arg)
{
    relock_pipeline_ping(pipeline);
    on_up(arg);
}

static void each_call_behind_a_ping_has_its_own_reply(void **state)
{
    (void)state;
    make_pipeline(on_up_ping_first);
    add_job(&renew);
    add_job(&extend);
    script_welcome(script, 7);
    script_expect(script, "PING");
    talk_expect(&renew);
    talk_expect(&extend);
    script_answer(script, "+PONG\r\n:1\r\n:2\r\n");
    run();
    assert_int_equal(jobs[0].integer, 1);
    assert_int_equal(jobs[1].integer, 2);
}

static void a_ping_that_is_refused_like_a_script_is_not_repeated(void **state)
{
    (void)state;
    make_pipeline(on_up_ping);
    script_welcome(script, 7);
    script_expect(script, "PING");
    script_answer(script, MISSING);
    script_close(script);
    script_welcome(script, 8);
    script_expect(script, "PING");
    run();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_has_one_answer),
        TEST(a_missing_script_is_loaded_and_its_call_repeated),
        TEST(a_script_that_cannot_be_loaded_is_a_refusal),
        TEST(a_script_that_may_not_be_loaded_is_sent_whole),
        TEST(a_script_that_may_not_be_sent_whole_is_a_refusal),
        TEST(a_command_without_a_script_brings_none),
        TEST(a_repeated_call_ends_with_its_connection),
        TEST(a_server_that_is_no_master_is_tried_with_growing_pauses),
        TEST(a_ping_without_memory_takes_no_reply),
        TEST(each_call_behind_a_ping_has_its_own_reply),
        TEST(a_ping_that_is_refused_like_a_script_is_not_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
