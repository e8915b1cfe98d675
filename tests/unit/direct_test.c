/*
 * A connection that the I/O thread and a thread that waits both read.
 *
 * The I/O thread can be stopped in its turn: then what is read, this thread has read.
 */
#include "redis/direct.h"

#include "base/clock.h"
#include "redis/channel.h"
#include "redis/loop.h"
#include "redis/pubsub.h"
#include "redis/reading.h"
#include "support/actor.h"
#include "talk.h"

#include <string.h>

#define SUBSCRIBED(name) "*3\r\n$9\r\nsubscribe\r\n$1\r\n" name "\r\n:1\r\n"
#define MESSAGE(name) "*3\r\n$7\r\nmessage\r\n$1\r\n" name "\r\n$1\r\n0\r\n"

static struct relock_loop *loop;
static struct relock_pubsub *pubsub;
static struct relock_reading *reading;
static struct relock_gate heard;  /* a message came over channel a */
static struct relock_gate events; /* a subscription was acknowledged, or a connection ended */
static pthread_t reader;          /* has read it */

static struct {
    struct relock_gate done;
    struct relock_gate goes_on;
    atomic_bool stops;     /* a turn is to stop */
    atomic_bool is_needed; /* the I/O thread needs the messages itself */
    atomic_bool logs_in_again;
    atomic_bool subscribes; /* to channel b */
} turns;

static void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    (void)text;
    (void)len;
    if (event == RELOCK_CHANNEL_MESSAGE) {
        reader = pthread_self();
        relock_gate_open(arg);
    } else {
        relock_gate_open(&events);
    }
}

static uint64_t turn(void *arg)
{
    (void)arg;
    if (atomic_exchange(&turns.logs_in_again, false))
        relock_pubsub_log_in_again(pubsub);
    if (atomic_exchange(&turns.subscribes, false))
        assert_non_null(relock_pubsub_subscribe(pubsub, "b", 1, on_channel, &heard));
    relock_pubsub_attend(pubsub, atomic_load(&turns.is_needed));
    if (atomic_exchange(&turns.stops, false)) {
        relock_gate_open(&turns.done);
        (void)relock_gate_wait(&turns.goes_on, soon());
    }
    return RELOCK_NEVER;
}

/* Channel a is subscribed. */
static int begin(void **state)
{
    int r = talk_begin(state);

    memset(&turns, 0, sizeof(turns));
    relock_gate_init(&heard);
    relock_gate_init(&events);
    assert_int_equal(relock_loop_new(turn, NULL, &loop), RELOCK_OK);
    assert_int_equal(relock_pubsub_new(loop, &server, 0, &pubsub), RELOCK_OK);
    assert_int_equal(relock_pubsub_share(pubsub, loop), RELOCK_OK);
    reading = pubsub->conn.reading;
    script_welcome(script, 7);
    script_expect(script, "SUBSCRIBE a");
    script_answer(script, SUBSCRIBED("a"));
    assert_non_null(relock_pubsub_subscribe(pubsub, "a", 1, on_channel, &heard));
    assert_int_equal(relock_loop_start(loop), RELOCK_OK);
    assert_true(relock_gate_wait(&events, soon()));
    return r;
}

static int end(void **state)
{
    actor_end_all();
    relock_gate_open(&turns.goes_on);
    relock_loop_stop(loop);
    pubsub = relock_pubsub_free(pubsub);
    loop = relock_loop_free(loop);
    return talk_end(state);
}

/* ---- the I/O thread ------------------------------------------------------------------------ */

static void stop_io(void)
{
    atomic_store(&turns.stops, true);
    relock_loop_wake(loop);
    assert_true(relock_gate_wait(&turns.done, soon()));
}

static void let_io_go_on(void)
{
    relock_gate_open(&turns.goes_on);
}

/* Returns after a turn that saw the order. */
static void have_a_turn(atomic_bool *order)
{
    atomic_store(order, true);
    stop_io();
    let_io_go_on();
}

/* ---- the connection ------------------------------------------------------------------------ */

/* As a thread that polls, and does not read what comes. */
static void pretend_to_poll(bool polls)
{
    relock_reading_lock(reading);
    reading->shared.is_polled = polls;
    reading->shared.n_waiting = polls ? 1 : 0;
    relock_reading_unlock(reading);
}

static bool is_left(void *arg)
{
    bool is;

    (void)arg;
    relock_reading_lock(reading);
    is = pubsub->conn.left_until_ms != RELOCK_NEVER;
    relock_reading_unlock(reading);
    return is;
}

static bool is_polled(void *arg)
{
    bool is;

    (void)arg;
    relock_reading_lock(reading);
    is = reading->shared.is_polled;
    relock_reading_unlock(reading);
    return is;
}

static bool is_not_polled(void *arg)
{
    return !is_polled(arg);
}

static bool is_awaited(void *arg)
{
    bool is;

    (void)arg;
    relock_reading_lock(reading);
    is = reading->shared.n_waiting > 0;
    relock_reading_unlock(reading);
    return is;
}

static bool has_met_the_end(void *arg)
{
    bool has;

    (void)arg;
    relock_reading_lock(reading);
    has = pubsub->conn.met < 0;
    relock_reading_unlock(reading);
    return has;
}

/* A message that the I/O thread has left in the socket, for a thread that polls. */
static void leave_a_message(void)
{
    pretend_to_poll(true);
    script_answer(script, MESSAGE("a"));
    assert_true(wait_until(is_left, NULL, SOON_MS));
}

static bool is_left_for_long(void *arg)
{
    bool is;

    (void)arg;
    relock_reading_lock(reading);
    is = !ev_is_active(&pubsub->conn.io) && pubsub->conn.left_until_ms == RELOCK_NEVER;
    relock_reading_unlock(reading);
    return is;
}

/* The other thread polled for so long that the I/O thread watches only when it is woken. */
static void leave_the_socket(void)
{
    leave_a_message();
    assert_true(relock_gate_wait(&heard, soon()));
    assert_true(wait_until(is_left_for_long, NULL, SOON_MS));
}

/* ---- threads that wait --------------------------------------------------------------------- */

/* A step: returns whether the gate was opened before the test gave up. */
static int wait_for(void *arg)
{
    uint64_t until_ms = soon();

    relock_direct_wait(pubsub, arg, until_ms);
    return relock_clock_now_ms() < until_ms;
}

static struct actor *begin_to_wait(struct relock_gate *gate)
{
    struct actor *actor = actor_start();

    actor_begin(actor, wait_for, gate);
    assert_true(wait_until(is_awaited, NULL, SOON_MS));
    return actor;
}

static void nobody_waits(void)
{
    assert_false(is_polled(NULL));
    assert_false(is_awaited(NULL));
}

/* ---- tests --------------------------------------------------------------------------------- */

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
    struct relock_gate gate;
    struct actor *actor;

    (void)state;
    relock_gate_init(&gate);
    actor = begin_to_wait(&gate);
    assert_true(wait_until(is_polled, NULL, SOON_MS));
    relock_gate_open(&gate);
    assert_int_equal(actor_result(actor), true);
    nobody_waits();
}

static void a_wait_ends_at_its_deadline(void **state)
{
    uint64_t deadline_ms = in_ms(20);

    (void)state;
    relock_direct_wait(pubsub, &heard, deadline_ms);
    assert_true(relock_clock_now_ms() >= deadline_ms);
    nobody_waits();
}

static void what_is_no_message_is_ignored(void **state)
{
    (void)state;
    stop_io();
    script_answer(script, "+PONG\r\n-ERR what\r\n*1\r\n:1\r\n" MESSAGE("a"));
    assert_int_equal(wait_for(&heard), true);
    assert_true(pthread_equal(reader, pthread_self()));
    let_io_go_on();
}

/* ---- who reads ----------------------------------------------------------------------------- */

static void the_io_thread_leaves_a_message_to_the_thread_that_polls(void **state)
{
    (void)state;
    leave_a_message();
    stop_io();
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
    struct relock_gate gate;
    struct actor *actor;

    (void)state;
    relock_gate_init(&gate);
    leave_the_socket();
    pretend_to_poll(false);
    actor = begin_to_wait(&gate);
    assert_true(wait_until(is_polled, NULL, SOON_MS));
    relock_gate_open(&gate);
    assert_int_equal(actor_result(actor), true);
    script_answer(script, MESSAGE("a"));
    assert_true(relock_gate_wait(&heard, soon()));
}

static void a_message_is_left_to_a_single_thread_that_polls(void **state)
{
    struct relock_reading other = {.shared.is_polled = true, .shared.n_waiting = 1};

    (void)state;
    assert_true(relock_reading_is_left(&other));
    other.shared.is_needed = true;
    assert_false(relock_reading_is_left(&other));
    other.shared.is_needed = false;
    other.shared.n_waiting = 2;
    assert_false(relock_reading_is_left(&other));
    other.shared.is_polled = false;
    other.shared.n_waiting = 1;
    assert_false(relock_reading_is_left(&other));
    assert_false(relock_reading_is_left(NULL));
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
    struct relock_gate gate;
    struct actor *actor;

    (void)state;
    relock_gate_init(&gate);
    actor = begin_to_wait(&gate);
    assert_true(wait_until(is_polled, NULL, SOON_MS));
    assert_false(relock_gate_wait(&heard, 0));
    relock_direct_wait(pubsub, &heard, in_ms(20));
    assert_true(is_polled(NULL)); /* the first still does */
    relock_gate_open(&gate);
    assert_int_equal(actor_result(actor), true);
    nobody_waits();
}

static void messages_that_the_io_thread_needs_are_not_left(void **state)
{
    struct relock_gate gate;
    struct actor *actor;

    (void)state;
    relock_gate_init(&gate);
    leave_a_message();
    have_a_turn(&turns.is_needed);
    assert_true(relock_gate_wait(&heard, soon()));
    pretend_to_poll(false);

    actor = begin_to_wait(&gate);
    assert_false(is_polled(NULL));
    relock_gate_open(&gate);
    assert_int_equal(actor_result(actor), true);
}

/* A thread that polls already goes to its gate after the next message. */
static void a_need_that_begins_later_ends_the_poll(void **state)
{
    struct relock_gate gate;
    struct actor *actor;

    (void)state;
    relock_gate_init(&gate);
    actor = begin_to_wait(&gate);
    assert_true(wait_until(is_polled, NULL, SOON_MS));
    have_a_turn(&turns.is_needed);
    stop_io();
    script_answer(script, MESSAGE("a"));
    assert_true(relock_gate_wait(&heard, soon()));
    assert_true(wait_until(is_not_polled, NULL, SOON_MS));
    assert_true(actor_is_busy(actor));
    let_io_go_on();
    relock_gate_open(&gate);
    assert_int_equal(actor_result(actor), true);
}

/* ---- replies and failures ------------------------------------------------------------------ */

static void replies_are_read_by_the_io_thread(void **state)
{
    struct relock_gate gate;
    struct actor *actor;

    (void)state;
    relock_gate_init(&gate);
    leave_a_message(); /* so it watches again only to send */
    script_expect(script, "SUBSCRIBE b");
    have_a_turn(&turns.subscribes);
    assert_true(relock_gate_wait(&heard, soon()));
    pretend_to_poll(false);

    /* A thread that begins to wait while the reply is owed leaves it alone. */
    actor = begin_to_wait(&gate);
    assert_false(is_polled(NULL));
    script_answer(script, SUBSCRIBED("b"));
    assert_true(relock_gate_wait(&events, soon()));
    relock_gate_open(&gate);
    assert_int_equal(actor_result(actor), true);
}

/* It polls from before the command was sent. */
static void a_thread_that_polls_leaves_a_reply_alone(void **state)
{
    struct relock_gate gate;
    struct actor *actor;

    (void)state;
    relock_gate_init(&gate);
    actor = begin_to_wait(&gate);
    assert_true(wait_until(is_polled, NULL, SOON_MS));
    script_expect(script, "SUBSCRIBE b");
    have_a_turn(&turns.subscribes);
    assert_true(script_played(script));
    stop_io();
    script_answer(script, SUBSCRIBED("b"));
    assert_true(wait_until(is_not_polled, NULL, SOON_MS));
    assert_false(relock_gate_wait(&events, 0));
    let_io_go_on();
    assert_true(relock_gate_wait(&events, soon()));
    relock_gate_open(&gate);
    assert_int_equal(actor_result(actor), true);
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

/* The next connection mostly has the same descriptor. */
static void a_thread_that_polls_hears_of_the_end_of_the_connection(void **state)
{
    struct actor *actor;

    (void)state;
    actor = begin_to_wait(&heard);
    assert_true(wait_until(is_polled, NULL, SOON_MS));
    script_expect_end(script);
    expect_another_connection();
    have_a_turn(&turns.logs_in_again);
    assert_true(wait_until(is_not_polled, NULL, SOON_MS));
    assert_true(script_played(script));
    assert_true(actor_is_busy(actor));
    script_answer(script, MESSAGE("a"));
    assert_int_equal(actor_result(actor), true);
    nobody_waits();
}

/* Its replies are for the I/O thread. */
static void a_connection_that_logs_in_is_not_polled(void **state)
{
    struct relock_gate gate;
    struct actor *actor;

    (void)state;
    relock_gate_init(&gate);
    script_close(script);
    script_accept(script);
    script_expect(script, "HELLO");
    assert_true(script_played(script));
    actor = begin_to_wait(&gate);
    assert_false(is_polled(NULL));
    script_close(script);
    expect_another_connection();
    assert_true(script_played(script));
    relock_gate_open(&gate);
    assert_int_equal(actor_result(actor), true);
}

#define DIRECT_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIRECT_TEST(a_thread_that_waits_reads_its_message_itself),
        DIRECT_TEST(a_thread_reads_the_messages_of_others_too),
        DIRECT_TEST(a_gate_that_another_thread_opens_ends_the_poll),
        DIRECT_TEST(a_wait_ends_at_its_deadline),
        DIRECT_TEST(what_is_no_message_is_ignored),
        DIRECT_TEST(the_io_thread_leaves_a_message_to_the_thread_that_polls),
        DIRECT_TEST(a_socket_that_nobody_polls_is_read_again_after_a_while),
        DIRECT_TEST(a_second_thread_has_the_io_thread_read),
        DIRECT_TEST(a_thread_that_leaves_late_has_the_io_thread_read),
        cmocka_unit_test(a_message_is_left_to_a_single_thread_that_polls),
        DIRECT_TEST(nothing_is_left_to_a_thread_that_is_not_alone),
        DIRECT_TEST(a_second_thread_does_not_poll),
        DIRECT_TEST(messages_that_the_io_thread_needs_are_not_left),
        DIRECT_TEST(a_need_that_begins_later_ends_the_poll),
        DIRECT_TEST(replies_are_read_by_the_io_thread),
        DIRECT_TEST(a_thread_that_polls_leaves_a_reply_alone),
        DIRECT_TEST(a_thread_that_meets_the_end_wakes_the_io_thread),
        DIRECT_TEST(the_io_thread_handles_the_end_that_another_thread_met),
        DIRECT_TEST(a_thread_that_polls_hears_of_the_end_of_the_connection),
        DIRECT_TEST(a_connection_that_logs_in_is_not_polled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
