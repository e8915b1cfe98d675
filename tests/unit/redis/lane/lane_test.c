/* A command connection that several threads share. */
#include "asking.h"

#include "base/clock.h"
#include "base/hash.h"
#include "redis/connect/conn_id.h"
#include "redis/lane/private.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sharing ------------------------------------------------------------------------------- */

static void queued_commands_go_out_in_one_write_and_each_gets_its_reply(void **state)
{
    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    asking_begin(1, 'b', 2, soon());
    asking_begin(2, 'c', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO c"); /* no reply has arrived yet */
    script_answer(script, "$1\r\n-\r\n$1\r\nb\r\n$1\r\nc\r\n");
    for (int i = 0; i < N_ASKING; i++)
        asking_has_answer(i);
}

/* The first has its answer, and the commands of the two others were sent together. */
static void two_of_three_have_no_answer(void)
{
    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    asking_begin(1, 'b', 1, soon());
    asking_begin(2, 'c', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO c");
}

static void the_driving_goes_on_while_others_have_no_answer(void **state)
{
    (void)state;

    two_of_three_have_no_answer();
    script_answer(script, "$1\r\nb\r\n");
    asking_has_answer(1);
    script_answer_bytewise(script, "$1\r\nc\r\n");
    asking_has_answer(2);
    assert_false(lane->guarded.driven);
}

static void of_several_replies_the_last_two_are_kept(void **state)
{
    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 3, soon());
    script_answer(script, ":1\r\n:2\r\n$1\r\na\r\n");
    assert_int_equal(actor_result(asking[0].actor), RELOCK_OK);
    assert_true(relock_reply_is(asking[0].exchange.reply, "a"));
    {
        int64_t integer;

        assert_true(relock_reply_integer(asking[0].exchange.before, &integer));
        assert_int_equal(integer, 2);
    }
    relock_reply_free(asking[0].exchange.reply);
    relock_reply_free(asking[0].exchange.before);
}

/* ---- failures ------------------------------------------------------------------------------ */

static void a_broken_connection_ends_all_exchanges_and_says_which_were_sent(void **state)
{
    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    asking_begin(1, 'b', 1, soon());
    script_close(script);
    asking_has_failed(0, true, server.label);
    asking_has_failed(1, false, server.label);
    assert_true(script_played(script));
    assert_int_equal(lane->inflight.conn.wire.fd, -1);
}

static void an_exchange_with_some_of_its_replies_fails(void **state)
{
    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 3, soon());
    script_answer(script, "$1\r\na\r\n$1\r\na\r\n$1\r\n");
    script_close(script);
    asking_has_failed(0, true, server.label);
    assert_null(asking[0].exchange.reply);
    assert_null(asking[0].exchange.before);
}

static void a_command_sent_with_others_may_have_run_too(void **state)
{
    (void)state;

    two_of_three_have_no_answer();
    script_close(script);
    assert_int_equal(actor_result(asking[1].actor), RELOCK_E_CONN);
    assert_int_equal(actor_result(asking[2].actor), RELOCK_E_CONN);
    for (int i = 1; i < N_ASKING; i++) {
        assert_true(asking[i].exchange.sent);
        assert_non_null(asking[i].exchange.conn_id);
        relock_conn_id_unref(asking[i].exchange.conn_id);
    }
}

/* Of the bytes that arrive together, the first are a reply and the next are invalid. */
static void an_exchange_answered_before_the_failure_stays_answered(void **state)
{
    (void)state;

    two_of_three_have_no_answer();
    script_answer(script, "$1\r\nb\r\n?\r\n");
    asking_has_answer(1);
    asking_has_failed(2, true, server.label);
}

static void a_reply_of_another_type_fails_all_that_is_in_flight(void **state)
{
    (void)state;

    two_of_three_have_no_answer();
    script_answer(script, ":1\r\n$1\r\nc\r\n");
    asking_has_failed(1, true, RELOCK_REPLY_MISFIT);
    asking_has_failed(2, true, RELOCK_REPLY_MISFIT);
}

/* It is unknown which of them answers the command. */
static void a_surplus_reply_fails_the_exchange_that_it_came_with(void **state)
{
    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    script_answer(script, "$1\r\na\r\n$1\r\na\r\n");
    asking_has_failed(0, true, RELOCK_REPLY_UNASKED);
}

static bool is_next_driver(void *arg)
{
    bool drives;

    relock_mutex_lock(&lane->mutex);
    drives = asking[*(int *)arg].exchange.drives;
    relock_mutex_unlock(&lane->mutex);
    return drives;
}

static void end_posted(struct relock_posted *posted)
{
    relock_reply_free(posted->exchange.reply);
    free(posted);
}

/* As a thread that asks and finds a driver. */
static void enqueue(struct relock_exchange *exchange)
{
    relock_mutex_lock(&lane->mutex);
    exchange->deadline_ms = soon();
    exchange->queued = true;
    relock_gate_init(&exchange->gate);
    DL_APPEND(lane->guarded.queue, exchange);
    relock_mutex_unlock(&lane->mutex);
}

static void dequeue(struct relock_exchange *exchange)
{
    relock_mutex_lock(&lane->mutex);
    DL_DELETE(lane->guarded.queue, exchange);
    lane->guarded.driven = false;
    relock_mutex_unlock(&lane->mutex);
}

/* It can send no more, but its unsent commands are not lost. */
static void a_driver_delayed_to_its_deadline_reads_pending_replies(void **state)
{
    static int held_up = 2, one = 1;
    uint64_t deadline_ms;

    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    asking_begin(1, 'b', 1, soon());
    deadline_ms = in_ms(slow_ms(2 * SENT_WITHIN_MS)); /* many steps come before it */
    asking_begin(2, 'c', 1, deadline_ms);
    script_answer(script, "$1\r\na\r\n");
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO c");
    asking_has_answer(0);
    assert_true(script_played(script));

    asking_hold_up(2);
    script_answer(script, "$1\r\nb\r\n");
    assert_true(wait_until(is_next_driver, &held_up, SOON_MS));
    script_answer(script, "$1\r\nc\r\n");
    assert_true(script_played(script));
    asking_prepare_padded(&asking[0], 'd', 1, ASKING_LONG, soon());
    asking_start(0);
    assert_true(wait_until(asking_n_queued, &one, SOON_MS));

    asking_has_answer(1);
    asking_has_answer(2);
    assert_true(relock_clock_now_ms() >= deadline_ms);
    asking_expect('d', true);
    script_answer(script, "$1\r\nd\r\n");
    asking_has_answer(0);
}

/* The thread that drives next sleeps meanwhile, as if it were slow to wake up. */
static void a_thread_that_stops_to_drive_sends_for_the_next(void **state)
{
    uint64_t deadline_ms;

    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    deadline_ms = in_ms(slow_ms(2 * SENT_WITHIN_MS)); /* several steps come before it */
    asking_begin(1, 'b', 1, deadline_ms);
    asking_hold_up(1);
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    script_expect(script, "ECHO b");
    script_answer(script, "$1\r\nb\r\n");
    asking_has_answer(1);
    assert_true(relock_clock_now_ms() >= deadline_ms);
}

/* It has its reply, so it may not wait for a socket to take the commands of another. */
static void a_thread_that_stops_to_drive_leaves_long_commands_to_the_next(void **state)
{
    static char many[4 * ASKING_LONG];

    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    asking_prepare(&asking[1], 'b', 1, in_ms(slow_ms(2 * SENT_WITHIN_MS)));
    asking[1].exchange.commands = (struct relock_text){many, sizeof(many)};
    asking_start(1);
    asking_hold_up(1);
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    asking_has_failed(1, false, "no answer in time");
}

/* It may not send, because a socket may be full. */
static void the_io_thread_sends_nothing(void **state)
{
    struct relock_posted *posted = calloc(1, sizeof(*posted));
    struct relock_exchange *queued;

    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    asking_prepare(&asking[0], 'p', 1, soon());
    posted->exchange = asking[0].exchange;
    posted->fn = end_posted;
    assert_int_equal(relock_lane_post(lane, posted, soon()), RELOCK_OK);
    script_expect(script, "ECHO p");
    script_answer(script, "$1\r\np\r\n");
    assert_true(script_played(script));

    asking_prepare(&asking[1], 'b', 1, soon());
    queued = &asking[1].exchange;
    enqueue(queued);
    while (lane->inflight.exchanges)
        assert_true(relock_lane_read(lane, 0));
    assert_true(queued->queued);
    assert_true(queued->drives);
    dequeue(queued);
}

/* No connection has ended that was never made. */
static void why_there_is_no_connection_stays_for_the_next_driver(void **state)
{
    struct relock_exchange *queued = &asking[1].exchange;

    (void)state;

    script_accept(script);
    talk_expect_login(); /* and no answer */
    asking_prepare(&asking[0], 'a', 1, in_ms(slow_ms(SENT_WITHIN_MS)));
    asking_prepare(&asking[1], 'b', 1, soon());
    asking_start(0);
    assert_true(script_played(script)); /* it drives */
    enqueue(queued);
    asking_has_failed(0, false, ": no answer to HELLO in time");
    assert_true(queued->drives);
    assert_non_null(strstr(lane->inflight.conn.wire.why, ": no answer to HELLO in time"));
    dequeue(queued);
}

static void without_a_listener_all_exchanges_fail_unsent(void **state)
{
    (void)state;

    asking_as(&(struct relock_options){.url = "unix:///nonexistent/socket"});
    asking_prepare(&asking[0], 'a', 1, soon());
    assert_int_equal(asking_ask(&asking[0]), RELOCK_E_CONN);
    assert_false(asking[0].exchange.sent);
    assert_null(asking[0].exchange.conn_id);
    assert_non_null(strstr(asking[0].exchange.why, "unix:///nonexistent/socket: "));
}

static void a_retired_connection_is_emptied_and_then_left(void **state)
{
    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    relock_lane_retire(lane);
    asking_begin(1, 'b', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    script_expect_end(script);
    script_welcome(script, 8);
    script_expect(script, "ECHO b");
    script_answer(script, "$1\r\nb\r\n");
    asking_has_answer(1);
    assert_int_equal(relock_lane_connects(lane), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ASKING_TEST(queued_commands_go_out_in_one_write_and_each_gets_its_reply),
        ASKING_TEST(the_driving_goes_on_while_others_have_no_answer),
        ASKING_TEST(of_several_replies_the_last_two_are_kept),
        ASKING_TEST(a_reply_of_another_type_fails_all_that_is_in_flight),
        ASKING_TEST(a_surplus_reply_fails_the_exchange_that_it_came_with),
        ASKING_TEST(a_broken_connection_ends_all_exchanges_and_says_which_were_sent),
        ASKING_TEST(an_exchange_with_some_of_its_replies_fails),
        ASKING_TEST(a_command_sent_with_others_may_have_run_too),
        ASKING_TEST(an_exchange_answered_before_the_failure_stays_answered),
        ASKING_TEST(a_driver_delayed_to_its_deadline_reads_pending_replies),
        ASKING_TEST(a_thread_that_stops_to_drive_sends_for_the_next),
        ASKING_TEST(a_thread_that_stops_to_drive_leaves_long_commands_to_the_next),
        ASKING_TEST(the_io_thread_sends_nothing),
        ASKING_TEST(why_there_is_no_connection_stays_for_the_next_driver),
        ASKING_TEST(without_a_listener_all_exchanges_fail_unsent),
        ASKING_TEST(a_retired_connection_is_emptied_and_then_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
