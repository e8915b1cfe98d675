/* Bytes to and from a server. The test has the other end of the socket pair. */
#include "pair.h"

#include "base/status.h"
#include "redis/server/reply.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGE (4 << 20)

/* ---- coming in ----------------------------------------------------------------------------- */

static void a_reply_may_come_byte_by_byte(void **state)
{
    static const char bytes[] = "*2\r\n$5\r\nhel\r\n\r\n:-12\r\n";
    struct redisReply *reply;
    int64_t integer;

    (void)state;

    for (size_t i = 0; i < strlen(bytes); i++) {
        takes_nothing();
        say((char[]){bytes[i], '\0'});
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    }
    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_OK);
    assert_true(relock_reply_is(relock_reply_at(reply, 0), "hel\r\n"));
    assert_true(relock_reply_integer(relock_reply_at(reply, 1), &integer));
    assert_int_equal(integer, -12);
    relock_reply_free(reply);
    takes_nothing();
}

static void replies_that_come_together_are_taken_one_by_one(void **state)
{
    (void)state;

    say("+one\r\n+two\r\n+th");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("one");
    takes("two");
    takes_nothing();
    say("ree\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("three");
}

static void an_error_or_nil_is_a_reply_like_others(void **state)
{
    struct redisReply *reply;

    (void)state;

    say("-ERR no\r\n$-1\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_OK);
    assert_string_equal(relock_reply_error(reply), "ERR no");
    relock_reply_free(reply);
    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_OK);
    assert_true(relock_reply_is_nil(reply));
    relock_reply_free(reply);
}

static void a_reply_may_be_larger_than_one_read(void **state)
{
    char *text = malloc(50001);
    int r = RELOCK_OK;

    (void)state;

    assert_non_null(text);
    memset(text, 'x', 50000);
    text[50000] = '\0';
    say("$50000\r\n");
    say(text);
    say("\r\n");
    while (r == RELOCK_OK)
        r = relock_wire_fill(&wire);
    assert_int_equal(r, RELOCK_AGAIN);
    takes(text);
    free(text);
}

static void a_wire_is_quiet_while_nothing_is_left_to_take(void **state)
{
    (void)state;

    assert_true(relock_wire_is_quiet(&wire));
    say("+one\r\n+two\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("one");
    assert_false(relock_wire_is_quiet(&wire));
    takes("two");
    assert_true(relock_wire_is_quiet(&wire));
}

static void having_nothing_to_read_is_no_error(void **state)
{
    (void)state;

    assert_int_equal(relock_wire_fill(&wire), RELOCK_AGAIN);
    say("+OK\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("OK");
}

static void a_connection_closed_in_the_middle_of_a_reply_is_a_failure(void **state)
{
    (void)state;

    say("$5\r\nhel");
    close(peer);
    peer = -1;
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes_nothing();
    assert_int_equal(relock_wire_fill(&wire), RELOCK_E_CONN);
    assert_non_null(strstr(wire.why, "closed"));
}

static void invalid_resp_is_a_failure(void **state)
{
    static const char *const others[] = {"HTTP/1.1 400 Bad Request\r\n", "\x15\x03\x01", "*x\r\n"};

    (void)state;

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct redisReply *reply;

        relock_wire_close(&wire);
        pair_connect();
        say(others[i]);
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
        assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_E_CONN);
        assert_string_not_equal(wire.why, "");
    }
}

/* ---- going out ----------------------------------------------------------------------------- */

static void appended_commands_are_sent_once(void **state)
{
    char bytes[64];

    (void)state;

    relock_command_begin(&wire.out, 1);
    relock_command_word(&wire.out, "PING");
    assert_int_equal(relock_wire_flush(&wire), RELOCK_OK);
    assert_int_equal(hear(bytes, sizeof(bytes)), 14);
    assert_memory_equal(bytes, "*1\r\n$4\r\nPING\r\n", 14);
    assert_int_equal(relock_wire_flush(&wire), RELOCK_OK);
    assert_int_equal(hear(bytes, sizeof(bytes)), 0);
}

static void bytes_that_do_not_fit_are_sent_later(void **state)
{
    char *sent = malloc(LARGE), *heard = malloc(LARGE);
    const size_t head = strlen("$4194304\r\n");
    size_t n = 0;
    int r;

    (void)state;

    assert_non_null(sent);
    assert_non_null(heard);
    for (int i = 0; i < LARGE; i++)
        sent[i] = (char)(i * 31);
    relock_command_arg(&wire.out, sent, LARGE);
    r = relock_wire_flush(&wire);
    assert_int_equal(r, RELOCK_AGAIN);
    assert_int_equal(hear(heard, head), head);
    while (n < LARGE) {
        n += hear(heard + n, LARGE - n);
        if (r == RELOCK_AGAIN)
            r = relock_wire_flush(&wire);
        assert_true(r >= 0);
    }
    assert_int_equal(r, RELOCK_OK);
    assert_memory_equal(heard, sent, LARGE);
    free(sent);
    free(heard);
}

/* By default SIGPIPE would end this program. */
static void sending_to_a_closed_peer_raises_no_sigpipe(void **state)
{
    (void)state;

    close(peer);
    peer = -1;
    relock_command_word(&wire.out, "PING");
    assert_int_equal(relock_wire_flush(&wire), RELOCK_E_CONN);
    assert_string_not_equal(wire.why, "");
}

static void an_incomplete_command_is_not_sent(void **state)
{
    char bytes[64];

    (void)state;

    relock_command_word(&wire.out, "PING");
    wire.out.failed = true;
    assert_int_equal(relock_wire_flush(&wire), RELOCK_E_NOMEM);
    assert_int_equal(hear(bytes, sizeof(bytes)), 0);
    assert_non_null(strstr(wire.why, "memory"));
}

/* ---- closing ------------------------------------------------------------------------------- */

static void a_new_connection_has_nothing_of_a_closed_one(void **state)
{
    char bytes[64];

    (void)state;

    say("$5\r\nhel");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    relock_command_word(&wire.out, "OLD");
    relock_wire_close(&wire);
    assert_int_equal(wire.fd, -1);
    assert_int_equal(recv(peer, bytes, sizeof(bytes), 0), 0);

    pair_connect();
    relock_command_word(&wire.out, "NEW");
    assert_int_equal(relock_wire_flush(&wire), RELOCK_OK);
    assert_int_equal(hear(bytes, sizeof(bytes)), strlen("$3\r\nNEW\r\n"));
    say("+lo\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("lo");
}

static void a_partly_sent_command_is_forgotten_with_the_connection(void **state)
{
    char *large = calloc(1, LARGE);
    char bytes[64];

    (void)state;

    assert_non_null(large);
    relock_command_arg(&wire.out, large, LARGE);
    assert_int_equal(relock_wire_flush(&wire), RELOCK_AGAIN);
    assert_true(wire.sent > 0);
    relock_wire_close(&wire);

    pair_connect();
    relock_command_word(&wire.out, "NEW");
    assert_int_equal(relock_wire_flush(&wire), RELOCK_OK);
    assert_int_equal(hear(bytes, sizeof(bytes)), 9);
    assert_memory_equal(bytes, "$3\r\nNEW\r\n", 9);
    free(large);
}

static void closing_twice_does_no_harm(void **state)
{
    (void)state;

    relock_wire_close(&wire);
    relock_wire_close(&wire);
    assert_int_equal(wire.fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(a_reply_may_come_byte_by_byte),
        WIRE_TEST(replies_that_come_together_are_taken_one_by_one),
        WIRE_TEST(an_error_or_nil_is_a_reply_like_others),
        WIRE_TEST(a_reply_may_be_larger_than_one_read),
        WIRE_TEST(a_wire_is_quiet_while_nothing_is_left_to_take),
        WIRE_TEST(having_nothing_to_read_is_no_error),
        WIRE_TEST(a_connection_closed_in_the_middle_of_a_reply_is_a_failure),
        WIRE_TEST(invalid_resp_is_a_failure),
        WIRE_TEST(appended_commands_are_sent_once),
        WIRE_TEST(bytes_that_do_not_fit_are_sent_later),
        WIRE_TEST(sending_to_a_closed_peer_raises_no_sigpipe),
        WIRE_TEST(an_incomplete_command_is_not_sent),
        WIRE_TEST(a_new_connection_has_nothing_of_a_closed_one),
        WIRE_TEST(a_partly_sent_command_is_forgotten_with_the_connection),
        WIRE_TEST(closing_twice_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
