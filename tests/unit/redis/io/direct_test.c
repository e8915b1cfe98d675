/* Whether the I/O thread or a thread that waits reads a message. */
#include "redis/io/io.h"

#include "base/clock.h"
#include "two_readers.h"

static void a_thread_that_waits_reads_its_message_itself(void **state)
{
    (void)state;
    stop_io();
    script_answer(script, MESSAGE("a"));
    assert_int_equal(wait_for(&heard), true);
    assert_true(pthread_equal(reader, pthread_self()));
    nobody_waits();
    let_io_go_on();
}

static void a_thread_reads_the_messages_of_others_too(void **state)
{
    static struct relock_gate own;

    (void)state;
    relock_gate_init(&own);
    stop_io();
    assert_non_null(relock_pubsub_subscribe(pubsub, "a", 1, on_channel, &own));
    script_answer(script, MESSAGE("a") MESSAGE("a"));
    assert_int_equal(wait_for(&own), true);
    assert_true(relock_gate_wait(&heard, 0));
    let_io_go_on();
}

static void a_gate_that_another_thread_opens_ends_the_poll(void **state)
{
    struct actor *actor = begin_to_poll();

    (void)state;
    end_waiting(actor);
    nobody_waits();
}

static void a_wait_ends_at_its_deadline(void **state)
{
    uint64_t deadline_ms = in_ms(20);

    (void)state;
    relock_direct_wait(reading, &pubsub, &heard, deadline_ms);
    assert_true(relock_clock_now_ms() >= deadline_ms);
    nobody_waits();
}

static void what_is_no_message_ends_the_connection(void **state)
{
    struct actor *actor = begin_to_poll();

    (void)state;
    stop_io();
    script_answer(script, "+PONG\r\n" MESSAGE("a"));
    assert_true(wait_until(is_not_polled, NULL, SOON_MS));
    let_io_go_on();
    script_expect_end(script);
    script_welcome(script, 8);
    script_expect(script, "SUBSCRIBE a");
    assert_true(script_played(script));
    end_waiting(actor);
}

/* ---- who reads ----------------------------------------------------------------------------- */

static void the_io_thread_leaves_a_message_to_the_thread_that_polls(void **state)
{
    (void)state;
    leave_a_message();
    pretend_to_poll(false);
    assert_false(relock_gate_wait(&heard, 0));
    assert_int_equal(wait_for(&heard), true);
    let_io_go_on();
}

/* Nobody tells the I/O thread that the other does not poll any more. */
static void a_socket_that_nobody_polls_is_read_again_after_a_while(void **state)
{
    (void)state;
    leave_a_message();
    pretend_to_poll(false);
    let_io_go_on();
    assert_true(relock_gate_wait(&heard, soon()));
    assert_false(pthread_equal(reader, pthread_self()));
    assert_false(is_left(NULL));
}

/* The one that polls may stand still: no wait depends on another thread of the program. */
static void a_second_thread_has_the_io_thread_read(void **state)
{
    struct actor *actor = actor_start();

    (void)state;
    leave_the_socket();
    actor_begin(actor, wait_for, &heard);
    script_answer(script, MESSAGE("a"));
    assert_int_equal(actor_result(actor), true);
    assert_false(pthread_equal(reader, pthread_self()));
    pretend_to_poll(false);
}

static void a_thread_that_leaves_late_has_the_io_thread_read(void **state)
{
    struct actor *actor;

    (void)state;
    leave_the_socket();
    pretend_to_poll(false);
    actor = begin_to_poll();
    end_waiting(actor);
    script_answer(script, MESSAGE("a"));
    assert_true(relock_gate_wait(&heard, soon()));
}

static void a_message_is_left_to_a_single_thread_that_polls(void **state)
{
    static struct relock_async_conn conn, another;
    struct relock_reading other = {.shared.polled = &conn, .shared.n_waiting = 1};

    (void)state;
    assert_true(relock_reading_is_left(&other, &conn));
    assert_false(relock_reading_is_left(&other, &another));
    other.shared.is_needed = true;
    assert_false(relock_reading_is_left(&other, &conn));
    other.shared.is_needed = false;
    other.shared.n_waiting = 2;
    assert_false(relock_reading_is_left(&other, &conn));
    other.shared.polled = NULL;
    other.shared.n_waiting = 1;
    assert_false(relock_reading_is_left(&other, &conn));
    assert_false(relock_reading_is_left(NULL, &conn));
}

static void nothing_is_left_to_a_thread_that_is_not_alone(void **state)
{
    (void)state;
    pretend_to_poll(true);
    relock_reading_lock(reading);
    reading->shared.n_waiting++;
    relock_reading_unlock(reading);
    script_answer(script, MESSAGE("a"));
    assert_true(relock_gate_wait(&heard, soon()));
    pretend_to_poll(false);
}

static void a_second_thread_does_not_poll(void **state)
{
    struct actor *actor = begin_to_poll();

    (void)state;
    assert_false(relock_gate_wait(&heard, 0));
    relock_direct_wait(reading, &pubsub, &heard, in_ms(20));
    assert_true(is_polled(NULL)); /* the first still does */
    end_waiting(actor);
    nobody_waits();
}

static void messages_that_the_io_thread_needs_are_not_left(void **state)
{
    struct actor *actor;

    (void)state;
    leave_a_message();
    let_io_go_on();
    have_a_turn(&turns.is_needed);
    assert_true(relock_gate_wait(&heard, soon()));
    pretend_to_poll(false);

    actor = begin_to_wait_alone();
    assert_false(is_polled(NULL));
    end_waiting(actor);
}

/* A thread that polls already goes to its gate after the next message. */
static void a_need_that_begins_later_ends_the_poll(void **state)
{
    struct actor *actor = begin_to_poll();

    (void)state;
    have_a_turn(&turns.is_needed);
    stop_io();
    script_answer(script, MESSAGE("a"));
    assert_true(relock_gate_wait(&heard, soon()));
    assert_true(wait_until(is_not_polled, NULL, SOON_MS));
    assert_true(actor_is_busy(actor));
    let_io_go_on();
    end_waiting(actor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        READERS_TEST(a_thread_that_waits_reads_its_message_itself),
        READERS_TEST(a_thread_reads_the_messages_of_others_too),
        READERS_TEST(a_gate_that_another_thread_opens_ends_the_poll),
        READERS_TEST(a_wait_ends_at_its_deadline),
        READERS_TEST(what_is_no_message_ends_the_connection),
        READERS_TEST(the_io_thread_leaves_a_message_to_the_thread_that_polls),
        READERS_TEST(a_socket_that_nobody_polls_is_read_again_after_a_while),
        READERS_TEST(a_second_thread_has_the_io_thread_read),
        READERS_TEST(a_thread_that_leaves_late_has_the_io_thread_read),
        cmocka_unit_test(a_message_is_left_to_a_single_thread_that_polls),
        READERS_TEST(nothing_is_left_to_a_thread_that_is_not_alone),
        READERS_TEST(a_second_thread_does_not_poll),
        READERS_TEST(messages_that_the_io_thread_needs_are_not_left),
        READERS_TEST(a_need_that_begins_later_ends_the_poll),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
