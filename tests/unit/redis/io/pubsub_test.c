/* Channels of a connection: which SUBSCRIBE an acknowledgement belongs to. */
#include "redis/io/io.h"
#include "redis/io/private.h"

#include "base/clock.h"
#include "base/thread.h"
#include "redis/server/loop.h"
#include "unit/common/talk.h"

#define ACK(verb, n, name, count) "*3\r\n$" n "\r\n" verb "\r\n$1\r\n" name "\r\n:" count "\r\n"
#define SUBSCRIBED(name, count) ACK("subscribe", "9", name, count)
#define UNSUBSCRIBED(name, count) ACK("unsubscribe", "11", name, count)
#define MESSAGE(name) "*3\r\n$7\r\nmessage\r\n$1\r\n" name "\r\n$1\r\n0\r\n"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static struct relock_loop *loop;
static struct relock_pubsub *pubsub;
static struct relock_gate over;
static unsigned n_acknowledged; /* of channels b and c */
static unsigned n_awaited;      /* so many open the gate */
static unsigned
    n_before_its_own; /* how many of these came before its last SUBSCRIBE was acknowledged */

static uint64_t never(void *arg)
{
    (void)arg;
    return RELOCK_NEVER;
}

static int begin(void **state)
{
    int r = talk_begin(state);

    n_acknowledged = 0;
    n_awaited = 1;
    n_before_its_own = 0;
    relock_gate_init(&over);
    assert_int_equal(relock_loop_new(never, NULL, &loop), RELOCK_OK);
    assert_int_equal(relock_pubsub_new(loop, &server, 0, &pubsub), RELOCK_OK);
    return r;
}

static int end(void **state)
{
    relock_loop_stop(loop);
    pubsub = relock_pubsub_free(pubsub);
    loop = relock_loop_free(loop);
    return talk_end(state);
}

static void on_b(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    (void)arg;
    (void)text;
    (void)len;
    if (event != RELOCK_CHANNEL_SUBSCRIBED)
        return;
    if (++n_acknowledged == n_awaited)
        relock_gate_open(&over);
}

/* Once `a` is subscribed, `b` is subscribed, left and subscribed again. */
static void on_a(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    (void)arg;
    (void)text;
    (void)len;
    if (event == RELOCK_CHANNEL_SUBSCRIBED) {
        relock_pubsub_unsubscribe(relock_pubsub_subscribe(pubsub, "b", 1, on_b, NULL));
        assert_non_null(relock_pubsub_subscribe(pubsub, "b", 1, on_b, NULL));
    } else if (event == RELOCK_CHANNEL_MESSAGE) {
        n_before_its_own = n_acknowledged;
    }
}

/* Between the two commands the server has no subscription, and a message would be lost. */
static void the_acknowledgement_of_an_earlier_subscribe_does_not_count(void **state)
{
    (void)state;
    script_welcome(script, 7);
    script_expect(script, "SUBSCRIBE a");
    script_answer(script, SUBSCRIBED("a", "1"));
    script_expect(script, "SUBSCRIBE b");
    script_expect(script, "UNSUBSCRIBE b");
    script_expect(script, "SUBSCRIBE b");
    script_answer(script, SUBSCRIBED("b", "2") UNSUBSCRIBED("b", "1") MESSAGE("a"));
    script_answer(script, SUBSCRIBED("b", "2"));
    assert_non_null(relock_pubsub_subscribe(pubsub, "a", 1, on_a, NULL));
    assert_int_equal(relock_loop_start(loop), RELOCK_OK);
    assert_true(script_played(script));
    assert_true(relock_gate_wait(&over, soon()));
    relock_loop_stop(loop);
    assert_int_equal(n_before_its_own, 0);
    assert_int_equal(n_acknowledged, 1);
}

/* Each connection counts its commands and replies anew, also after one that left some unanswered.
 */
static void each_connection_subscribes_anew(void **state)
{
    (void)state;
    n_awaited = 4;
    script_welcome(script, 7);
    script_expect(script, "SUBSCRIBE b");
    script_expect(script, "SUBSCRIBE c");
    script_close(script);
    for (unsigned id = 8; id < 10; id++) {
        script_welcome(script, id);
        script_expect(script, "SUBSCRIBE b");
        script_expect(script, "SUBSCRIBE c");
        script_answer(script, SUBSCRIBED("b", "1") SUBSCRIBED("c", "2"));
        if (id == 8)
            script_close(script);
    }
    assert_non_null(relock_pubsub_subscribe(pubsub, "b", 1, on_b, NULL));
    assert_non_null(relock_pubsub_subscribe(pubsub, "c", 1, on_b, NULL));
    assert_int_equal(relock_loop_start(loop), RELOCK_OK);
    assert_true(script_played(script));
    assert_true(relock_gate_wait(&over, soon()));
    relock_loop_stop(loop);
    assert_int_equal(n_acknowledged, 4);
}

/* Both while a reply is awaited and while none is. */
static void a_reply_that_no_command_has_ends_the_connection(void **state)
{
    static const char *const replies[] = {"+PONG\r\n", "-ERR unknown command\r\n", ":1\r\n",
                                          SUBSCRIBED("b", "1")};
    unsigned id = 7;

    (void)state;
    n_awaited = COUNT(replies) + 1;
    script_welcome(script, id++);
    script_expect(script, "SUBSCRIBE b");
    script_answer(script, ":1\r\n");
    script_expect_end(script);
    for (size_t i = 0; i < COUNT(replies); i++) {
        script_welcome(script, id++);
        script_expect(script, "SUBSCRIBE b");
        script_answer(script, SUBSCRIBED("b", "1"));
        script_answer(script, replies[i]);
        script_expect_end(script);
    }
    script_welcome(script, id);
    script_expect(script, "SUBSCRIBE b");
    script_answer(script, SUBSCRIBED("b", "1"));
    assert_non_null(relock_pubsub_subscribe(pubsub, "b", 1, on_b, NULL));
    assert_int_equal(relock_loop_start(loop), RELOCK_OK);
    assert_true(script_played(script));
    assert_true(relock_gate_wait(&over, soon()));
    relock_loop_stop(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_acknowledgement_of_an_earlier_subscribe_does_not_count,
                                        begin, end),
        cmocka_unit_test_setup_teardown(each_connection_subscribes_anew, begin, end),
        cmocka_unit_test_setup_teardown(a_reply_that_no_command_has_ends_the_connection, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
