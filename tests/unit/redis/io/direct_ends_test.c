/* Replies, and the end of a connection, while the I/O thread and a thread that waits read it. */
#include "two_readers.h"

static bool has_met_the_end(void *arg)
{
    bool has;

    (void)arg;
    relock_reading_lock(reading);
    has = pubsub->conn.met < 0;
    relock_reading_unlock(reading);
    return has;
}

static void replies_are_read_by_the_io_thread(void **state)
{
    struct actor *actor;

    (void)state;
    leave_a_message(); /* so it watches again only to send */
    script_expect(script, "SUBSCRIBE b");
    let_io_go_on();
    have_a_turn(&turns.subscribes);
    assert_true(relock_gate_wait(&heard, soon()));
    pretend_to_poll(false);

    /* A thread that begins to wait while the reply is owed leaves it alone. */
    actor = begin_to_wait_alone();
    assert_false(is_polled(NULL));
    script_answer(script, SUBSCRIBED("b"));
    assert_true(relock_gate_wait(&events, soon()));
    end_waiting(actor);
}

/* It polls from before the command was sent. */
static void a_thread_that_polls_leaves_a_reply_alone(void **state)
{
    struct actor *actor = begin_to_poll();

    (void)state;
    script_expect(script, "SUBSCRIBE b");
    have_a_turn(&turns.subscribes);
    assert_true(script_played(script));
    stop_io();
    script_answer(script, SUBSCRIBED("b"));
    assert_true(wait_until(is_not_polled, NULL, SOON_MS));
    assert_false(relock_gate_wait(&events, 0));
    let_io_go_on();
    assert_true(relock_gate_wait(&events, soon()));
    end_waiting(actor);
}

static void expect_another_connection(void)
{
    script_welcome(script, 8);
    script_expect(script, "SUBSCRIBE a");
    script_answer(script, SUBSCRIBED("a"));
}

static void a_thread_that_meets_the_end_wakes_the_io_thread(void **state)
{
    struct actor *actor;

    (void)state;
    leave_the_socket();
    pretend_to_poll(false);
    actor = begin_to_wait(&heard);
    assert_true(wait_until(is_polled, NULL, SOON_MS));
    script_close(script);
    expect_another_connection();
    assert_true(relock_gate_wait(&events, soon())); /* the end */
    script_answer(script, MESSAGE("a"));
    assert_int_equal(actor_result(actor), true);
}

static void the_io_thread_handles_the_end_that_another_thread_met(void **state)
{
    struct actor *actor;

    (void)state;
    stop_io();
    actor = begin_to_wait(&heard);
    script_close(script);
    assert_true(wait_until(has_met_the_end, NULL, SOON_MS));
    assert_false(relock_gate_wait(&events, 0));
    expect_another_connection();
    let_io_go_on();
    assert_true(relock_gate_wait(&events, soon())); /* the end */
    script_answer(script, MESSAGE("a"));
    assert_int_equal(actor_result(actor), true);
}

/* Another thread may poll a connection of which it has no channel, so no gate is opened. */
static void a_connection_that_ends_is_not_polled(void **state)
{
    (void)state;
    pretend_to_poll(true);
    script_close(script);
    expect_another_connection();
    assert_true(wait_until(is_not_polled, NULL, SOON_MS));
    assert_true(script_played(script));
    script_answer(script, MESSAGE("a"));
    assert_true(relock_gate_wait(&heard, soon())); /* though that thread does not read */
    pretend_to_poll(false);
}

/* The next connection mostly has the same descriptor. */
static void a_thread_that_polls_hears_of_the_end_of_the_connection(void **state)
{
    struct actor *actor;

    (void)state;
    actor = begin_to_wait(&heard);
    assert_true(wait_until(is_polled, NULL, SOON_MS));
    script_expect_end(script);
    have_a_turn(&turns.logs_in_again);
    assert_true(wait_until(is_not_polled, NULL, SOON_MS));
    expect_another_connection(); /* not sooner: the thread polls it at once */
    assert_true(script_played(script));
    assert_true(actor_is_busy(actor));
    script_answer(script, MESSAGE("a"));
    assert_int_equal(actor_result(actor), true);
    nobody_waits();
}

/* Its replies are for the I/O thread. */
static void a_connection_that_logs_in_is_not_polled(void **state)
{
    struct actor *actor;

    (void)state;
    script_close(script);
    script_accept(script);
    script_expect(script, "HELLO");
    assert_true(script_played(script));
    actor = begin_to_wait_alone();
    assert_false(is_polled(NULL));
    script_close(script);
    expect_another_connection();
    assert_true(script_played(script));
    end_waiting(actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        READERS_TEST(replies_are_read_by_the_io_thread),
        READERS_TEST(a_thread_that_polls_leaves_a_reply_alone),
        READERS_TEST(a_thread_that_meets_the_end_wakes_the_io_thread),
        READERS_TEST(the_io_thread_handles_the_end_that_another_thread_met),
        READERS_TEST(a_connection_that_ends_is_not_polled),
        READERS_TEST(a_thread_that_polls_hears_of_the_end_of_the_connection),
        READERS_TEST(a_connection_that_logs_in_is_not_polled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
