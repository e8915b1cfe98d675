/* A command connection that several threads share. */
#include "redis/lane.h"

#include "base/clock.h"
#include "base/hash.h"
#include "redis/origin.h"
#include "redis/reply.h"
#include "support/actor.h"
#include "talk.h"

#include <stdio.h>
#include <string.h>

#define N_ASKING 3

/* A deadline that comes, but not before what is asked has been sent. */
#define SENT_WITHIN_MS 2000

static struct relock_lane the_lane, *const lane = &the_lane;

/* What a thread asks: ECHO of a letter, so often. */
struct asking {
    struct actor *actor;
    struct relock_question question;
    char commands[64];
    char text[2];
    uint64_t deadline_ms;
};

static struct asking asking[N_ASKING];

static int begin(void **state)
{
    int r = talk_begin(state);

    relock_lane_init(lane, &server);
    for (int i = 0; i < N_ASKING; i++)
        asking[i].actor = actor_start();
    return r;
}

static int end(void **state)
{
    actor_end_all();
    relock_lane_deinit(lane);
    return talk_end(state);
}

static void prepare(struct asking *at, char letter, unsigned n, uint64_t deadline_ms)
{
    at->text[0] = letter;
    at->commands[0] = '\0';
    for (unsigned i = 0; i < n; i++)
        snprintf(at->commands + strlen(at->commands), sizeof(at->commands) - strlen(at->commands),
                 "*2\r\n$4\r\nECHO\r\n$1\r\n%c\r\n", letter);
    at->question.commands = (struct relock_text){at->commands, strlen(at->commands)};
    at->question.n_replies = n;
    at->deadline_ms = deadline_ms;
}

static int ask(void *arg)
{
    struct asking *at = arg;

    return relock_lane_ask(lane, &at->question, at->deadline_ms);
}

/* So many questions stand in the queue. */
static bool n_queued(void *arg)
{
    struct relock_question *at;
    int n = 0;

    relock_mutex_lock(&lane->mutex);
    DL_FOREACH(lane->guarded.queue, at)
    n++;
    relock_mutex_unlock(&lane->mutex);
    return n == *(int *)arg;
}

/* The thread asks, the first one driving, the others standing in the queue in this order. */
static void ask_in_background(int i, char letter, unsigned n, uint64_t deadline_ms)
{
    static char words[16];

    prepare(&asking[i], letter, n, deadline_ms);
    actor_begin(asking[i].actor, ask, &asking[i]);
    if (i > 0) {
        assert_true(wait_until(n_queued, &i, SOON_MS));
        return;
    }
    snprintf(words, sizeof(words), "ECHO %c", letter);
    for (unsigned j = 0; j < n; j++)
        script_expect(script, words);
    assert_true(script_played(script));
}

static void has_answer(int i)
{
    assert_int_equal(actor_result(asking[i].actor), RELOCK_OK);
    assert_true(relock_reply_is(asking[i].question.reply, asking[i].text));
    relock_reply_free(asking[i].question.reply);
    relock_reply_free(asking[i].question.before);
}

static void has_failed(int i, bool sent, const char *why)
{
    assert_int_equal(actor_result(asking[i].actor), RELOCK_E_CONN);
    assert_int_equal(asking[i].question.sent, sent);
    assert_non_null(strstr(asking[i].question.why, why));
    if (sent)
        asking[i].question.origin = relock_origin_unref(asking[i].question.origin);
}

/* ---- sharing ------------------------------------------------------------------------------- */

static void what_was_queued_goes_out_in_one_piece_and_each_gets_its_own(void **state)
{
    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 1, soon());
    ask_in_background(1, 'b', 2, soon());
    ask_in_background(2, 'c', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO c"); /* nothing was answered yet */
    script_answer(script, "$1\r\n-\r\n$1\r\nb\r\n$1\r\nc\r\n");
    for (int i = 0; i < N_ASKING; i++)
        has_answer(i);
    assert_true(script_played(script));
}

static void the_driving_goes_on_while_others_have_no_answer(void **state)
{
    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 1, soon());
    ask_in_background(1, 'b', 1, soon());
    ask_in_background(2, 'c', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    has_answer(0);
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO c");
    script_answer(script, "$1\r\nb\r\n");
    has_answer(1);
    script_answer_bytewise(script, "$1\r\nc\r\n");
    has_answer(2);
    assert_false(lane->guarded.driven);
    assert_true(script_played(script));
}

static void of_several_replies_the_last_two_are_kept(void **state)
{
    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 3, soon());
    script_answer(script, ":1\r\n:2\r\n$1\r\na\r\n");
    assert_int_equal(actor_result(asking[0].actor), RELOCK_OK);
    assert_true(relock_reply_is(asking[0].question.reply, "a"));
    {
        int64_t integer;

        assert_true(relock_reply_integer(asking[0].question.before, &integer));
        assert_int_equal(integer, 2);
    }
    relock_reply_free(asking[0].question.reply);
    relock_reply_free(asking[0].question.before);
    assert_true(script_played(script));
}

/* ---- failures ------------------------------------------------------------------------------ */

static void a_connection_that_breaks_ends_all_and_says_who_was_sent(void **state)
{
    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 1, soon());
    ask_in_background(1, 'b', 1, soon());
    script_close(script);
    has_failed(0, true, server.label);
    has_failed(1, false, server.label);
    assert_true(script_played(script));
    assert_int_equal(lane->driver.link.wire.fd, -1);
}

static void some_of_its_replies_are_none(void **state)
{
    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 3, soon());
    script_answer(script, "$1\r\na\r\n$1\r\na\r\n$1\r\n");
    script_close(script);
    has_failed(0, true, server.label);
    assert_null(asking[0].question.reply);
    assert_null(asking[0].question.before);
    assert_true(script_played(script));
}

static void who_was_sent_with_others_may_have_run_too(void **state)
{
    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 1, soon());
    ask_in_background(1, 'b', 1, soon());
    ask_in_background(2, 'c', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    has_answer(0);
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO c");
    script_close(script);
    assert_int_equal(actor_result(asking[1].actor), RELOCK_E_CONN);
    assert_int_equal(actor_result(asking[2].actor), RELOCK_E_CONN);
    for (int i = 1; i < N_ASKING; i++) {
        assert_true(asking[i].question.sent);
        assert_non_null(asking[i].question.origin);
        relock_origin_unref(asking[i].question.origin);
    }
    assert_true(script_played(script));
}

/* Of what comes in one piece, the first is a reply and the next is none. */
static void what_was_answered_before_the_connection_failed_stays_answered(void **state)
{
    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 1, soon());
    ask_in_background(1, 'b', 1, soon());
    ask_in_background(2, 'c', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    has_answer(0);
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO c");
    script_answer(script, "$1\r\nb\r\n?\r\n");
    has_answer(1);
    has_failed(2, true, server.label);
    assert_true(script_played(script));
}

static void no_answer_to_one_in_time_fails_what_is_under_way(void **state)
{
    uint64_t deadline_ms;

    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 1, soon());
    ask_in_background(1, 'b', 1, soon());
    deadline_ms = in_ms(slow_ms(SENT_WITHIN_MS));
    ask_in_background(2, 'c', 1, deadline_ms);
    script_answer(script, "$1\r\na\r\n");
    script_expect(script, "ECHO b"); /* whose thread drives now, and has time */
    script_expect(script, "ECHO c");
    script_expect_end(script);
    has_answer(0);
    has_failed(2, true, "no answer in time");
    assert_true(has_just_passed(deadline_ms));
    has_failed(1, true, "no answer in time");
    assert_true(script_played(script));
}

static void who_is_still_queued_at_its_deadline_was_never_sent_and_harms_nobody(void **state)
{
    uint64_t deadline_ms;

    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 1, soon());
    deadline_ms = in_ms(slow_ms(SENT_WITHIN_MS));
    ask_in_background(1, 'b', 1, deadline_ms);
    has_failed(1, false, "no answer in time");
    assert_true(has_just_passed(deadline_ms));
    script_answer(script, "$1\r\na\r\n");
    has_answer(0);
    assert_true(script_played(script));
}

static bool sleeps(void *gate)
{
    return atomic_load(&((struct relock_gate *)gate)->state) != 0;
}

static bool is_next_driver(void *arg)
{
    bool drives;

    relock_mutex_lock(&lane->mutex);
    drives = asking[*(int *)arg].question.drives;
    relock_mutex_unlock(&lane->mutex);
    return drives;
}

/* As if the system were late to let the thread go on that sleeps there: until its deadline. One
 * that was only about to sleep says so again, and may be slow to. */
static void hold_up(struct relock_gate *gate)
{
    do {
        assert_true(wait_until(sleeps, gate, SOON_MS));
        atomic_store(&gate->state, 0);
        let_pass(SENT_WITHIN_MS / 5);
    } while (sleeps(gate));
}

/* It cannot send any more, and what it has not sent is not lost by that. */
static void a_driver_held_up_until_its_deadline_reads_what_has_come(void **state)
{
    static int held_up = 2, one = 1;
    uint64_t deadline_ms;

    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 1, soon());
    ask_in_background(1, 'b', 1, soon());
    deadline_ms = in_ms(slow_ms(2 * SENT_WITHIN_MS)); /* much is to be done before */
    ask_in_background(2, 'c', 1, deadline_ms);
    script_answer(script, "$1\r\na\r\n");
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO c");
    has_answer(0);
    assert_true(script_played(script));

    hold_up(&asking[2].question.gate);
    script_answer(script, "$1\r\nb\r\n");
    assert_true(wait_until(is_next_driver, &held_up, SOON_MS));
    script_answer(script, "$1\r\nc\r\n");
    assert_true(script_played(script));
    prepare(&asking[0], 'd', 1, soon());
    actor_begin(asking[0].actor, ask, &asking[0]);
    assert_true(wait_until(n_queued, &one, SOON_MS));

    has_answer(1);
    has_answer(2);
    assert_true(relock_clock_now_ms() >= deadline_ms);
    script_expect(script, "ECHO d");
    script_answer(script, "$1\r\nd\r\n");
    has_answer(0);
    assert_true(script_played(script));
}

static void where_nobody_listens_all_that_wait_fail_unsent(void **state)
{
    (void)state;

    talk_as(&(struct relock_options){.url = "unix:///nonexistent/socket"});
    prepare(&asking[0], 'a', 1, soon());
    assert_int_equal(ask(&asking[0]), RELOCK_E_CONN);
    assert_false(asking[0].question.sent);
    assert_null(asking[0].question.origin);
    assert_non_null(strstr(asking[0].question.why, "unix:///nonexistent/socket: "));
}

static void a_retired_connection_is_emptied_and_then_left(void **state)
{
    (void)state;

    script_welcome(script, 7);
    ask_in_background(0, 'a', 1, soon());
    relock_lane_retire(lane);
    ask_in_background(1, 'b', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    has_answer(0);
    script_expect_end(script);
    script_welcome(script, 8);
    script_expect(script, "ECHO b");
    script_answer(script, "$1\r\nb\r\n");
    has_answer(1);
    assert_int_equal(relock_lane_reconnects(lane), 1);
    assert_true(script_played(script));
}

#define LANE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LANE_TEST(what_was_queued_goes_out_in_one_piece_and_each_gets_its_own),
        LANE_TEST(the_driving_goes_on_while_others_have_no_answer),
        LANE_TEST(of_several_replies_the_last_two_are_kept),
        LANE_TEST(a_connection_that_breaks_ends_all_and_says_who_was_sent),
        LANE_TEST(some_of_its_replies_are_none),
        LANE_TEST(who_was_sent_with_others_may_have_run_too),
        LANE_TEST(what_was_answered_before_the_connection_failed_stays_answered),
        LANE_TEST(no_answer_to_one_in_time_fails_what_is_under_way),
        LANE_TEST(who_is_still_queued_at_its_deadline_was_never_sent_and_harms_nobody),
        LANE_TEST(a_driver_held_up_until_its_deadline_reads_what_has_come),
        LANE_TEST(where_nobody_listens_all_that_wait_fail_unsent),
        LANE_TEST(a_retired_connection_is_emptied_and_then_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
