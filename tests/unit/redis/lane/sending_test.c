/* Threads send over a lane while another one waits for its reply. */
#include "asking.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "redis/connect/conn_id.h"
#include "redis/lane/private.h"
#include "redis/server/reply.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

/* Of the bytes that go out beside a driver, this many leave no room for a further command. */
#define NEARLY_ALL 2500

/* A thread waits for the reply to `a`. */
static void one_drives(void)
{
    script_welcome(script, 7);
    asking_send(0, 'a', soon());
}

/* ---- beside the driver --------------------------------------------------------------------- */

static void a_command_reaches_the_server_while_the_driver_waits(void **state)
{
    (void)state;

    one_drives();
    asking_send(1, 'b', soon());
    assert_true(actor_is_busy(asking[0].actor));
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    script_answer(script, "$1\r\nb\r\n");
    asking_has_answer(1);
    assert_int_equal(relock_lane_connects(lane), 1);
}

static void each_of_several_senders_gets_its_own_reply(void **state)
{
    (void)state;

    one_drives();
    asking_send(1, 'b', soon());
    asking_send(2, 'c', soon());
    script_answer(script, "$1\r\na\r\n$1\r\nb\r\n");
    asking_has_answer(0);
    asking_has_answer(1);
    asking_send(0, 'd', soon());
    script_answer_bytewise(script, "$1\r\nc\r\n$1\r\nd\r\n");
    asking_has_answer(2);
    asking_has_answer(0);
    assert_int_equal(lane->inflight.n_unanswered, 0);
}

/* As a thread that sends beside the driver, until it calls relock_sending_beside(). */
static bool becomes_sender(void *arg)
{
    bool becomes;

    (void)arg;
    relock_mutex_lock(&lane->mutex);
    becomes = lane->guarded.sender == RELOCK_SENDER_NONE;
    if (becomes)
        lane->guarded.sender = RELOCK_SENDER_OTHER;
    relock_mutex_unlock(&lane->mutex);
    return becomes;
}

static void become_sender(void)
{
    assert_true(wait_until(becomes_sender, NULL, SOON_MS));
}

static void what_comes_while_a_thread_sends_is_sent_by_it_too(void **state)
{
    (void)state;

    one_drives();
    become_sender();
    asking_begin(1, 'b', 1, soon());
    relock_sending_beside(lane);
    asking_expect('b', false);
    assert_true(script_played(script));
    assert_true(actor_is_busy(asking[0].actor));
    script_answer(script, "$1\r\na\r\n$1\r\nb\r\n");
    asking_has_answer(0);
    asking_has_answer(1);
}

/* ---- what waits in the queue --------------------------------------------------------------- */

/* The driver would wake up too late to let it leave. */
static void an_exchange_that_leaves_before_the_driver_wakes_waits_in_the_queue(void **state)
{
    uint64_t deadline_ms;

    (void)state;

    one_drives();
    deadline_ms = in_ms(slow_ms(SENT_WITHIN_MS));
    asking_begin(1, 'b', 1, deadline_ms);
    asking_has_failed(1, false, "no answer in time");
    assert_true(has_just_passed(deadline_ms));
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
}

static void with_many_bytes_unanswered_exchanges_wait_for_the_next_reply(void **state)
{
    static int one = 1;

    (void)state;

    one_drives();
    asking_prepare_padded(&asking[1], 'b', 1, NEARLY_ALL, soon());
    asking_start(1);
    asking_expect('b', true);
    assert_true(script_played(script));
    asking_prepare(&asking[2], 'c', 1, soon());
    asking_start(2);
    assert_true(wait_until(asking_n_queued, &one, SOON_MS));
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    asking_expect('c', false); /* `b` has no reply yet */
    assert_true(script_played(script));
    asking_prepare(&asking[0], 'd', 1, soon());
    asking_start(0);
    assert_true(wait_until(asking_n_queued, &one, SOON_MS));
    script_answer(script, "$1\r\nb\r\n");
    asking_has_answer(1);
    asking_expect('d', false);
    script_answer(script, "$1\r\nc\r\n$1\r\nd\r\n");
    asking_has_answer(2);
    asking_has_answer(0);
}

static void nothing_is_sent_beside_the_driver_of_a_retired_connection(void **state)
{
    (void)state;

    one_drives();
    relock_lane_retire(lane);
    asking_begin(1, 'b', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    script_expect_end(script);
    script_welcome(script, 8);
    asking_expect('b', false);
    script_answer(script, "$1\r\nb\r\n");
    asking_has_answer(1);
}

/* Somebody drives, and can do so until the lane is left. */
static void mark_as_driven(bool only_takes)
{
    relock_mutex_lock(&lane->mutex);
    assert_false(lane->guarded.driven);
    lane->guarded.driven = true;
    lane->guarded.only_takes = only_takes;
    relock_mutex_unlock(&lane->mutex);
}

/* Takes the exchange, which must wait, out of the queue again; nobody drives. */
static void has_to_queue(struct asking *at)
{
    at->exchange.deadline_ms = at->deadline_ms;
    at->exchange.n_left = at->exchange.n_replies;
    assert_int_equal(relock_sending_enter(lane, &at->exchange, relock_clock_now_ms()),
                     RELOCK_PART_WAIT);
    relock_mutex_lock(&lane->mutex);
    DL_DELETE(lane->guarded.queue, &at->exchange);
    lane->guarded.driven = lane->guarded.only_takes = false;
    relock_mutex_unlock(&lane->mutex);
}

/* Its state belongs to the thread that reads. */
static void with_tls_nothing_is_sent_beside_the_driver(void **state)
{
    struct relock_wire *wire = &lane->inflight.conn.wire;
    struct relock_exchange *own = &asking[0].exchange;

    (void)state;

    asking_prepare(&asking[0], 'a', 1, soon());
    asking_prepare(&asking[1], 'b', 1, soon());
    own->deadline_ms = asking[0].deadline_ms;
    mark_as_driven(false);
    wire->tls = (struct relock_tls *)&server; /* some connection */
    relock_mutex_lock(&lane->mutex);
    DL_APPEND(lane->guarded.queue, own);
    assert_int_equal(relock_sending_allow(lane, own, relock_clock_now_ms()), own->deadline_ms);
    DL_DELETE(lane->guarded.queue, own);
    relock_mutex_unlock(&lane->mutex);
    wire->tls = NULL;
    has_to_queue(&asking[1]);
}

/* The thread that drives next has to look at the connection first. */
static void nothing_is_sent_beside_a_driver_that_waits_for_no_reply(void **state)
{
    static char many[4 * ASKING_LONG];
    static int one = 1, two = 2;

    (void)state;

    one_drives();
    asking_prepare(&asking[1], 'b', 1, in_ms(slow_ms(2 * SENT_WITHIN_MS)));
    asking[1].exchange.commands = (struct relock_text){many, sizeof(many)};
    asking_start(1);
    assert_true(wait_until(asking_n_queued, &one, SOON_MS));
    asking_hold_up(1);
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0); /* thread 1 is the driver, and wakes up at its deadline */
    asking_prepare(&asking[0], 'c', 1, soon());
    asking_start(0);
    assert_true(wait_until(asking_n_queued, &two, SOON_MS));
    asking_has_failed(1, false, "no answer in time");
    asking_expect('c', false);
    script_answer(script, "$1\r\nc\r\n");
    asking_has_answer(0);
}

/* ---- posted commands ----------------------------------------------------------------------- */

struct counted {
    struct relock_posted posted;
    atomic_int n_ends, result;
};

static void count_end(struct relock_posted *posted)
{
    struct counted *counted = (struct counted *)posted;

    relock_reply_free(posted->exchange.reply);
    relock_conn_id_unref(posted->exchange.conn_id);
    counted->result = posted->exchange.result;
    counted->n_ends++;
}

static int post(struct counted *counted)
{
    *counted = (struct counted){.posted.fn = count_end};
    asking_prepare(&asking[2], 'p', 1, 0);
    counted->posted.exchange = asking[2].exchange;
    return relock_lane_post(lane, &counted->posted, soon());
}

static void a_posted_command_is_sent_beside_the_driver(void **state)
{
    static struct counted counted; /* a failing test leaves it in flight */

    (void)state;

    one_drives();
    assert_int_equal(post(&counted), RELOCK_OK);
    asking_expect('p', false);
    assert_true(script_played(script));
    assert_true(actor_is_busy(asking[0].actor));
    script_answer(script, "$1\r\na\r\n$1\r\np\r\n");
    asking_has_answer(0);
    (void)relock_lane_read(lane, soon()); /* unless it came with the other reply */
    assert_int_equal(counted.n_ends, 1);
    assert_int_equal(counted.result, RELOCK_OK);
}

/* It may not wait for a socket. */
static void nothing_is_posted_while_the_io_thread_drives(void **state)
{
    static struct counted counted;

    (void)state;

    one_drives();
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    mark_as_driven(true);
    assert_int_equal(post(&counted), RELOCK_AGAIN);
    assert_int_equal(lane->n_posted, 0);
    asking_prepare(&asking[0], 'b', 1, soon());
    has_to_queue(&asking[0]);
    assert_int_equal(counted.n_ends, 0);
}

static bool driver_waits_for_sender(void *arg)
{
    bool waits;

    (void)arg;
    relock_mutex_lock(&lane->mutex);
    waits = lane->guarded.claim != NULL;
    relock_mutex_unlock(&lane->mutex);
    return waits;
}

/* It would be left in the queue, and a driver that sends it at the same time would mix it up. */
static void a_driver_waits_for_a_sender_before_it_sends_what_was_posted(void **state)
{
    static struct counted counted;

    (void)state;

    one_drives();
    become_sender();
    assert_int_equal(post(&counted), RELOCK_OK);
    script_answer(script, "$1\r\na\r\n");
    assert_true(wait_until(driver_waits_for_sender, NULL, SOON_MS));
    assert_true(actor_is_busy(asking[0].actor));
    relock_sending_beside(lane);
    asking_has_answer(0);
    asking_expect('p', false);
    script_answer(script, "$1\r\np\r\n");
    assert_true(relock_lane_read(lane, soon()));
    assert_int_equal(counted.n_ends, 1);
    assert_int_equal(counted.result, RELOCK_OK);
}

/* No reply to another command may be what it waits for. */
static void a_driver_whose_command_is_unsent_waits_for_the_sender(void **state)
{
    static struct counted counted;

    (void)state;

    one_drives();
    script_answer(script, "$1\r\na\r\n");
    asking_has_answer(0);
    assert_int_equal(post(&counted), RELOCK_OK);
    asking_expect('p', false);
    assert_true(script_played(script));

    become_sender(); /* as if this thread had not posted all of it */
    asking_prepare(&asking[0], 'b', 1, soon());
    asking_start(0);
    assert_true(wait_until(driver_waits_for_sender, NULL, SOON_MS));
    relock_sending_beside(lane);
    asking_expect('b', false);
    assert_true(script_played(script));
    script_answer(script, "$1\r\np\r\n$1\r\nb\r\n");
    asking_has_answer(0);
    assert_int_equal(counted.n_ends, 1);
}

static bool queue_is_left(void *arg)
{
    bool is_left;

    (void)arg;
    relock_mutex_lock(&lane->mutex);
    is_left = lane->guarded.is_left;
    relock_mutex_unlock(&lane->mutex);
    return is_left;
}

/* That thread may not be able to send what is there. */
static void a_driver_leaves_the_queue_to_a_sender_once(void **state)
{
    (void)state;

    script_welcome(script, 7);
    asking_begin(0, 'a', 3, soon());
    become_sender();
    asking_begin(1, 'b', 1, soon());
    script_answer(script, "$1\r\na\r\n");
    assert_true(wait_until(queue_is_left, NULL, SOON_MS));
    script_answer(script, "$1\r\na\r\n");
    assert_true(wait_until(driver_waits_for_sender, NULL, SOON_MS));
    relock_sending_beside(lane);
    asking_expect('b', false);
    assert_true(script_played(script));
    script_answer(script, "$1\r\na\r\n$1\r\nb\r\n");
    asking_has_answer(0);
    asking_has_answer(1);
}

/* ---- failures ------------------------------------------------------------------------------ */

static void a_broken_connection_ends_what_was_sent_beside_the_driver(void **state)
{
    static int one = 1;

    (void)state;

    one_drives();
    asking_send(1, 'b', soon());
    asking_prepare_padded(&asking[2], 'c', 1, ASKING_LONG, soon());
    asking_start(2);
    assert_true(wait_until(asking_n_queued, &one, SOON_MS));
    script_close(script);
    asking_has_failed(0, true, server.label);
    asking_has_failed(1, true, server.label);
    asking_has_failed(2, false, server.label);
}

/* The other thread uses the socket. */
static void a_driver_waits_for_a_sender_before_it_closes_the_connection(void **state)
{
    (void)state;

    one_drives();
    become_sender();
    script_close(script);
    assert_true(wait_until(driver_waits_for_sender, NULL, SOON_MS));
    assert_true(actor_is_busy(asking[0].actor));
    assert_int_not_equal(lane->inflight.conn.wire.fd, -1);
    relock_sending_beside(lane);
    asking_has_failed(0, true, server.label);
    assert_int_equal(lane->inflight.conn.wire.fd, -1);
}

/* Returns when its deadline and the other time limits pass: long after the test fails. */
static uint64_t one_drives_for_long(void)
{
    uint64_t long_ms = slow_ms(3 * SOON_MS), deadline_ms = in_ms(long_ms);

    asking_as(&(struct relock_options){.command_timeout_ms = long_ms});
    script_welcome(script, 7);
    asking_send(0, 'a', deadline_ms);
    return deadline_ms;
}

/* Nothing comes for the driver. The sender ends its wait. */
static void a_sender_whose_socket_has_failed_ends_the_connection(void **state)
{
    uint64_t deadline_ms = one_drives_for_long();

    (void)state;

    assert_int_equal(shutdown(lane->inflight.conn.wire.fd, SHUT_WR), 0);
    asking_prepare(&asking[1], 'b', 1, deadline_ms);
    asking_start(1);
    asking_has_failed(1, false, server.label);
    asking_has_failed(0, true, server.label);
}

static void fill(int fd)
{
    static const char bytes[ASKING_LONG];

    for (size_t len = sizeof(bytes); len > 0; len /= 2)
        while (send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            continue;
    assert_true(errno == EAGAIN || errno == EWOULDBLOCK);
}

static void a_sender_whose_socket_is_full_ends_the_connection(void **state)
{
    static const char why[] = "its socket took no further command";
    uint64_t deadline_ms = one_drives_for_long();

    (void)state;

    fill(lane->inflight.conn.wire.fd);
    asking_prepare(&asking[1], 'b', 1, deadline_ms);
    asking_start(1);
    asking_has_failed(1, false, why);
    asking_has_failed(0, true, why);
    script_welcome(script, 8);
    asking_send(0, 'c', soon());
    script_answer(script, "$1\r\nc\r\n");
    asking_has_answer(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ASKING_TEST(a_command_reaches_the_server_while_the_driver_waits),
        ASKING_TEST(each_of_several_senders_gets_its_own_reply),
        ASKING_TEST(what_comes_while_a_thread_sends_is_sent_by_it_too),
        ASKING_TEST(an_exchange_that_leaves_before_the_driver_wakes_waits_in_the_queue),
        ASKING_TEST(with_many_bytes_unanswered_exchanges_wait_for_the_next_reply),
        ASKING_TEST(nothing_is_sent_beside_the_driver_of_a_retired_connection),
        ASKING_TEST(with_tls_nothing_is_sent_beside_the_driver),
        ASKING_TEST(nothing_is_sent_beside_a_driver_that_waits_for_no_reply),
        ASKING_TEST(a_posted_command_is_sent_beside_the_driver),
        ASKING_TEST(nothing_is_posted_while_the_io_thread_drives),
        ASKING_TEST(a_driver_waits_for_a_sender_before_it_sends_what_was_posted),
        ASKING_TEST(a_driver_whose_command_is_unsent_waits_for_the_sender),
        ASKING_TEST(a_driver_leaves_the_queue_to_a_sender_once),
        ASKING_TEST(a_broken_connection_ends_what_was_sent_beside_the_driver),
        ASKING_TEST(a_driver_waits_for_a_sender_before_it_closes_the_connection),
        ASKING_TEST(a_sender_whose_socket_has_failed_ends_the_connection),
        ASKING_TEST(a_sender_whose_socket_is_full_ends_the_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
