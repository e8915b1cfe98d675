/* Calls of the I/O thread, its pings, and the pauses between its connections. */
#include "jobs.h"

#include "redis/server/reply.h"
#include "support/alloc.h"

#include <stdlib.h>
#include <string.h>

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

static void a_call_has_one_answer(void **state)
{
    (void)state;
    jobs_add(&renew);
    script_welcome(script, 7);
    talk_expect(&renew);
    script_answer(script, ":1\r\n");
    jobs_run();
    assert_int_equal(jobs[0].n_answers, 1);
    assert_int_equal(jobs[0].result, RELOCK_OK);
    assert_int_equal(jobs[0].integer, 1);
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
    memset(&pauses, 0, sizeof(pauses));
    jobs_make_pipeline(on_up_again);
    for (unsigned i = 0; i < TRIES; i++) {
        script_welcome(script, i);
        talk_expect(&renew);
        script_answer(script, "-READONLY You can't write against a read only replica.\r\n");
        script_expect_end(script);
    }
    script_accept(script);
    jobs_run();
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
    int64_t integer;

    (void)arg;
    assert_int_equal(result, RELOCK_OK);
    if (relock_reply_integer(reply, &integer) && integer == 0)
        return;                   /* another command is in flight */
    alloc_fail(ALLOC_MINE, 2, 1); /* the first is for the reply to come */
    relock_pipeline_ping(pipeline);
    assert_int_equal(alloc_stop(), 1);
    for (size_t i = 0; i < n_jobs; i++)
        jobs[i].result = relock_pipeline_call(pipeline, jobs[i].call, jobs_answer, &jobs[i]);
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
    jobs_make_pipeline(on_up_with_a_long_call);
    jobs_add(&renew);
    jobs_add(&extend);
    script_welcome(script, 7);
    script_expect(script, "EVALSHA * 1 * 60000 id:7");
    script_expect(script, "EVALSHA * 1 * 60000 id:7");
    script_answer(script, ":0\r\n:1\r\n");
    talk_expect(&renew);
    talk_expect(&extend);
    script_answer(script, ":2\r\n:5\r\n");
    jobs_run();
    free(key);
    assert_int_equal(jobs[0].integer, 2);
    assert_int_equal(jobs[1].integer, 5);
}

static void on_up_ping_first(void *arg)
{
    relock_pipeline_ping(pipeline);
    jobs_send(arg);
}

static void each_call_behind_a_ping_has_its_own_reply(void **state)
{
    (void)state;
    jobs_make_pipeline(on_up_ping_first);
    jobs_add(&renew);
    jobs_add(&extend);
    script_welcome(script, 7);
    script_expect(script, "PING");
    talk_expect(&renew);
    talk_expect(&extend);
    script_answer(script, "+PONG\r\n:1\r\n:2\r\n");
    jobs_run();
    assert_int_equal(jobs[0].integer, 1);
    assert_int_equal(jobs[1].integer, 2);
}

static void a_reply_of_another_type_ends_all_that_is_in_flight(void **state)
{
    (void)state;
    jobs_add(&renew);
    jobs_add(&extend);
    script_welcome(script, 7);
    talk_expect(&renew);
    talk_expect(&extend);
    script_answer(script, "+OK\r\n:1\r\n");
    script_expect_end(script);
    script_welcome(script, 8);
    jobs_run();
    assert_int_equal(jobs[0].result, RELOCK_E_CONN);
    assert_int_equal(jobs[1].result, RELOCK_E_CONN);
}

static bool has_two_answers(void *arg)
{
    (void)arg;
    return jobs[0].n_answers == 2;
}

static void on_up_renew(void *arg)
{
    (void)arg;
    assert_int_equal(relock_pipeline_call(pipeline, &renew, jobs_answer, &jobs[0]), RELOCK_OK);
}

/* It may answer bytes of another program. It must not end the connection again and again. */
static void an_unknown_error_ends_the_connection_and_the_next_does_not(void **state)
{
    (void)state;
    jobs_make_pipeline(on_up_renew);
    jobs_add(&renew);
    script_welcome(script, 7);
    talk_expect(&renew);
    script_answer(script, "-ERR unknown command 'relock:'\r\n");
    script_expect_end(script);
    script_welcome(script, 8);
    talk_expect(&renew);
    script_answer(script, "-ERR really\r\n");
    jobs_run();
    assert_true(wait_until(has_two_answers, NULL, SOON_MS));
    assert_int_equal(jobs[0].result, RELOCK_E_SERVER);
    assert_string_equal(jobs[0].error, "ERR really");
}

/* ---- turns --------------------------------------------------------------------------------- */

/* What the I/O thread saw, at these moments. */
static struct turn {
    bool may_take;
    bool is_in_turn;
} before, during, late, after;

static void look(struct turn *turn)
{
    turn->may_take = relock_pipeline_may_take_turn(pipeline);
    turn->is_in_turn = relock_pipeline_is_in_turn(pipeline);
}

static void on_turn_answered(void *arg, int result, const struct redisReply *reply)
{
    look(&after);
    jobs_answer(arg, result, reply);
}

/* The second call is sent behind the turn. */
static void on_up_take_turn(void *arg)
{
    (void)arg;
    look(&before);
    (void)relock_pipeline_call(pipeline, &renew, on_turn_answered, &jobs[0]);
    relock_pipeline_begin_turn(pipeline);
    look(&during);
    (void)relock_pipeline_call(pipeline, &extend, jobs_answer, &jobs[1]);
    relock_pipeline_begin_turn(pipeline);
    look(&late);
}

static void assert_turn(const struct turn *turn, bool may_take, bool is_in_turn)
{
    assert_int_equal(turn->may_take, may_take);
    assert_int_equal(turn->is_in_turn, is_in_turn);
}

static void a_turn_ends_with_its_answers_and_the_next_begins_without_it(void **state)
{
    (void)state;
    jobs_make_pipeline(on_up_take_turn);
    jobs_add(&renew);
    jobs_add(&extend);
    assert_false(relock_pipeline_may_take_turn(pipeline)); /* it is not connected */
    script_welcome(script, 7);
    talk_expect(&renew);
    talk_expect(&extend);
    script_answer(script, ":1\r\n:2\r\n");
    jobs_run();
    assert_turn(&before, true, false);
    assert_turn(&during, false, true);
    assert_turn(&late, false, false);
    assert_turn(&after, true, false);
}

static void on_up_take_turn_once(void *arg)
{
    (void)arg;
    if (jobs[0].is_sent) {
        look(&after);
        (void)relock_pipeline_call(pipeline, &renew, jobs_answer, &jobs[1]);
        return;
    }
    jobs[0].is_sent = true;
    (void)relock_pipeline_call(pipeline, &renew, jobs_answer, &jobs[0]);
    relock_pipeline_begin_turn(pipeline);
    look(&during);
}

static void a_turn_ends_with_its_connection(void **state)
{
    (void)state;
    jobs_make_pipeline(on_up_take_turn_once);
    jobs_add(&renew);
    jobs_add(&renew);
    script_welcome(script, 7);
    talk_expect(&renew);
    script_close(script);
    script_welcome(script, 8);
    talk_expect(&renew);
    script_answer(script, ":1\r\n");
    jobs_run();
    assert_turn(&during, false, true);
    assert_turn(&after, true, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOBS_TEST(a_call_has_one_answer),
        JOBS_TEST(a_server_that_is_no_master_is_tried_with_growing_pauses),
        JOBS_TEST(a_ping_without_memory_takes_no_reply),
        JOBS_TEST(each_call_behind_a_ping_has_its_own_reply),
        JOBS_TEST(a_reply_of_another_type_ends_all_that_is_in_flight),
        JOBS_TEST(an_unknown_error_ends_the_connection_and_the_next_does_not),
        JOBS_TEST(a_turn_ends_with_its_answers_and_the_next_begins_without_it),
        JOBS_TEST(a_turn_ends_with_its_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
