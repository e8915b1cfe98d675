/* Running a script before a deadline: waiting for replicas. */
#include "calls.h"

#include "base/clock.h"
#include "redis/deployment/run.h"
#include "redis/server/reply.h"
#include "support/actor.h"

static void acquire_on_replicas(void)
{
    calls_acquire();
    call.min_replicas = 2;
    call.replica_timeout_ms = 500;
}

static int begin(void **state)
{
    int r = calls_begin(state);

    acquire_on_replicas();
    return r;
}

static void replicas_are_awaited_only_after_a_grant(void **state)
{
    static const struct {
        const char *reply;
        unsigned acked;
    } replies[] = {{":2\r\n", 2}, {":1\r\n", 1}, {":0\r\n", 0}, {"-NOPERM no right\r\n", 0}};

    (void)state;

    script_welcome(script, 7);
    for (size_t i = 0; i < 4; i++) {
        acquire_on_replicas();
        server_answers("$-1\r\n");
        script_expect(script, "WAIT 2 500");
        script_answer(script, replies[i].reply);
        assert_int_equal(run_call(), RELOCK_OK);
        assert_true(relock_reply_is_nil(call.reply));
        assert_int_equal(call.acked_replicas, replies[i].acked);
        relock_call_end(&call);
    }
}

/* After a command that wrote nothing, WAIT would count replicas that have earlier writes. */
static void replicas_are_not_awaited_after_a_refusal(void **state)
{
    static const char *const refusals[] = {"-NOSCRIPT No matching script.\r\n",
                                           "-LOADING Redis is loading\r\n"};

    (void)state;

    script_welcome(script, 7);
    for (size_t i = 0; i < 2; i++) {
        acquire_on_replicas();
        server_answers(refusals[i]);
        if (i == 0) {
            script_expect(script, "SCRIPT LOAD *");
            script_answer(script, "$2\r\nid\r\n");
        }
        server_answers(":250\r\n");
        assert_int_equal(run_call(), RELOCK_OK);
        assert_int_equal(call.acked_replicas, 0);
        relock_call_end(&call);
    }
}

static void replicas_count_only_for_the_attempt_that_was_granted(void **state)
{
    (void)state;

    script_welcome(script, 7);
    server_answers("$-1\r\n");
    script_expect(script, "WAIT 2 500");
    script_answer(script, ":2");
    script_close(script);
    script_welcome(script, 8);
    server_answers("$-1\r\n");
    script_expect(script, "WAIT 2 500");
    script_answer(script, ":0\r\n");
    assert_int_equal(run_call(), RELOCK_OK);
    assert_int_equal(call.acked_replicas, 0);
    assert_true(call.unanswered);
}

/* Whether or not WAIT was sent: the script was. */
static void a_connection_that_breaks_after_the_grant_leaves_it_unanswered(void **state)
{
    (void)state;

    for (int round = 0; round < 20; round++) {
        acquire_on_replicas();
        script_welcome(script, 7);
        server_answers("$-1\r\n");
        script_close(script);
        script_welcome(script, 8);
        server_answers(":250\r\n");
        assert_int_equal(run_call(), RELOCK_OK);
        assert_true(call.unanswered);
        assert_true(script_played(script));
        relock_call_end(&call);
        talk_as(&(struct relock_options){0});
    }
}

static int run_call_step(void *arg)
{
    (void)arg;
    return run_call();
}

/* The connection is given up while the acquire is in flight: WAIT does not go over the next one. */
static void replicas_count_only_on_the_connection_of_the_grant(void **state)
{
    struct actor *actor = actor_start();

    (void)state;

    script_welcome(script, 7);
    talk_expect(&call);
    actor_begin(actor, run_call_step, NULL);
    assert_true(script_played(script));
    relock_lanes_retire(lanes);
    script_answer(script, "$-1\r\n");
    script_expect_end(script);
    script_welcome(script, 8);
    server_answers("$-1\r\n");
    script_expect(script, "WAIT 2 500");
    script_answer(script, ":1\r\n");
    assert_int_equal(actor_result(actor), RELOCK_OK);
    assert_int_equal(call.acked_replicas, 1);
    assert_true(call.unanswered);
    actor_end(actor);
}

static void waiting_for_replicas_ends_at_the_deadline_of_the_call(void **state)
{
    uint64_t deadline_ms;

    (void)state;

    talk_connect(&call, 7);
    call.replica_timeout_ms = RELOCK_NEVER;
    server_answers("$-1\r\n");
    script_expect(script, "WAIT 2 *"); /* less than the remaining time */
    script_expect_end(script);
    deadline_ms = in_ms(slow_ms(BRIEF_MS));
    assert_int_equal(relock_call_run(&call, topology, deadline_ms), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_null(call.reply);
    assert_true(call.unanswered);
}

#define REPLICAS_TEST(function) cmocka_unit_test_setup_teardown(function, begin, calls_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REPLICAS_TEST(replicas_are_awaited_only_after_a_grant),
        REPLICAS_TEST(replicas_are_not_awaited_after_a_refusal),
        REPLICAS_TEST(replicas_count_only_for_the_attempt_that_was_granted),
        REPLICAS_TEST(a_connection_that_breaks_after_the_grant_leaves_it_unanswered),
        REPLICAS_TEST(replicas_count_only_on_the_connection_of_the_grant),
        REPLICAS_TEST(waiting_for_replicas_ends_at_the_deadline_of_the_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
