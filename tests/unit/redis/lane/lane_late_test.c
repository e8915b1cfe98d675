/* Deadlines on a command connection that several threads share. */
#include "asking.h"

#include "base/clock.h"
#include "redis/connect/conn_id.h"
#include "redis/lane/lane.h"

#include <stdatomic.h>

/* How an orphan ended. */
struct heard {
    atomic_int n;
    atomic_bool answered;
    atomic_bool is_its_own; /* it has the conn_id of the exchange */
    const struct relock_conn_id *conn_id;
};

static void on_end(void *arg, const struct relock_conn_id *conn_id, bool answered)
{
    struct heard *heard = arg;

    heard->answered = answered;
    heard->is_its_own = conn_id == heard->conn_id;
    heard->n++;
}

static bool is_heard(void *arg)
{
    return ((struct heard *)arg)->n > 0;
}

/* Two exchanges are sent, and the first drives. Exchange `early` leaves at its deadline. */
static void one_leaves(int early, struct heard *heard)
{
    struct relock_exchange *exchange = &asking[early].exchange;
    uint64_t deadline_ms;

    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    deadline_ms = in_ms(slow_ms(SENT_WITHIN_MS));
    asking_begin(1, 'b', 1, early == 1 ? deadline_ms : soon());
    asking_begin(2, 'c', 1, early == 2 ? deadline_ms : soon());
    script_answer(script, "$1\r\na\r\n");
    script_expect(script, "ECHO b");
    script_expect(script, "ECHO c");
    asking_has_answer(0);
    assert_true(script_played(script));

    assert_int_equal(actor_result(asking[early].actor), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    assert_non_null(exchange->orphan);
    heard->conn_id = exchange->conn_id; /* only compared: the orphan has its own reference */
    assert_true(relock_orphan_adopt(exchange->orphan, on_end, heard, &(bool){false}));
    exchange->orphan = NULL;
    exchange->conn_id = relock_conn_id_unref(exchange->conn_id);
    assert_true(actor_is_busy(asking[3 - early].actor));
    assert_int_equal(heard->n, 0);
}

static void a_driver_that_leaves_at_its_deadline_delays_no_other(void **state)
{
    struct heard heard = {0};

    (void)state;
    one_leaves(1, &heard);
    asking_prepare(&asking[1], 'd', 1, soon());
    asking_start(1); /* before or after the replies */
    script_answer(script, "$1\r\nb\r\n$1\r\nc\r\n");
    script_expect(script, "ECHO d");
    script_answer(script, "$1\r\nd\r\n");
    asking_has_answer(2);
    asking_has_answer(1);
    assert_int_equal(heard.n, 1);
    assert_true(heard.answered);
    assert_true(heard.is_its_own);
    assert_int_equal(relock_lane_connects(lane), 1);
}

/* With the last exchange the connection closes: nothing would read further replies. */
static void an_orphan_ends_with_its_last_exchange(void **state)
{
    struct heard heard = {0};

    (void)state;
    one_leaves(2, &heard);
    script_answer(script, "$1\r\nb\r\n");
    script_expect_end(script);
    asking_has_answer(1);
    assert_true(wait_until(is_heard, &heard, SOON_MS));
    assert_int_equal(heard.n, 1);
    assert_false(heard.answered);
    assert_true(heard.is_its_own);
}

static void an_orphan_adopted_late_is_known_to_be_over(void **state)
{
    struct relock_exchange *exchange = &asking[0].exchange;
    bool answered = true;

    (void)state;
    script_welcome(script, 7);
    asking_begin(0, 'a', 1, in_ms(slow_ms(SENT_WITHIN_MS)));
    script_expect_end(script);
    assert_int_equal(actor_result(asking[0].actor), RELOCK_E_CONN);
    assert_true(exchange->sent);
    assert_false(relock_orphan_adopt(exchange->orphan, on_end, NULL, &answered));
    assert_false(answered);
    exchange->conn_id = relock_conn_id_unref(exchange->conn_id);
}

static void a_deadline_that_is_near_leaves_time_for_an_answer(void **state)
{
    uint64_t deadline_ms;

    (void)state;
    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    for (int i = 0; i < 20; i++) {
        asking_prepare(&asking[0], 'b', 1, in_ms(5));
        deadline_ms = in_ms(RELOCK_ANSWER_MIN_MS);
        asking_start(0);
        if (actor_result(asking[0].actor) == RELOCK_E_CONN && asking[0].exchange.sent)
            break; /* sent: a slow machine may reach the deadline before sending */
    }
    assert_true(relock_clock_now_ms() >= deadline_ms);
    asking_has_failed(0, true, "no answer in time");
    script_expect(script, "ECHO b");
    script_expect_end(script);
}

static void no_answer_for_the_command_timeout_fails_exchanges_in_flight(void **state)
{
    uint64_t limit_ms;

    (void)state;
    asking_as(&(struct relock_options){.command_timeout_ms = slow_ms(SENT_WITHIN_MS)});
    script_welcome(script, 7);
    limit_ms = in_ms(slow_ms(SENT_WITHIN_MS));
    asking_begin(0, 'a', 1, soon());
    asking_begin(1, 'b', 1, soon());
    script_expect_end(script);
    asking_has_failed(0, true, "no answer in time");
    assert_true(relock_clock_now_ms() >= limit_ms);
    asking_has_failed(1, false, "no answer in time");
}

static void an_exchange_still_queued_at_its_deadline_was_never_sent(void **state)
{
    uint64_t deadline_ms;

    (void)state;
    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    deadline_ms = in_ms(slow_ms(SENT_WITHIN_MS));
    asking_begin(1, 'b', 1, deadline_ms);
    asking_has_failed(1, false, "no answer in time");
    assert_true(has_just_passed(deadline_ms));
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
}

static void an_exchange_past_its_deadline_without_a_driver_harms_no_other(void **state)
{
    (void)state;
    script_welcome(script, 7);
    asking_begin(0, 'a', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    asking_prepare(&asking[0], 'b', 1, relock_clock_now_ms());
    assert_int_equal(asking_ask(&asking[0]), RELOCK_E_CONN);
    assert_false(asking[0].exchange.sent);
    asking_begin(0, 'c', 1, soon()); /* over the same connection */
    script_answer(script, "$1\r\nc\r\n");
    asking_has_answer(0);
    assert_int_equal(relock_lane_connects(lane), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ASKING_TEST(a_driver_that_leaves_at_its_deadline_delays_no_other),
        ASKING_TEST(an_orphan_ends_with_its_last_exchange),
        ASKING_TEST(an_orphan_adopted_late_is_known_to_be_over),
        ASKING_TEST(a_deadline_that_is_near_leaves_time_for_an_answer),
        ASKING_TEST(no_answer_for_the_command_timeout_fails_exchanges_in_flight),
        ASKING_TEST(an_exchange_still_queued_at_its_deadline_was_never_sent),
        ASKING_TEST(an_exchange_past_its_deadline_without_a_driver_harms_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
