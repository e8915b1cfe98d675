/* Bytes to and from a server, over a pair of sockets of which the test has the other end. */
#include "redis/wire.h"

#include "base/status.h"
#include "redis/reply.h"
#include "support/leaks.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE (4 << 20)

static struct relock_wire wire;
static int peer = -1;
static struct leaks before;

/* Ours does not block, so that RELOCK_AGAIN can be seen. */
static void connect_wire(void)
{
    int fds[2];

    if (peer >= 0)
        close(peer);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(relock_wire_open(&wire, fds[0]), RELOCK_OK);
    peer = fds[1];
}

static int begin(void **state)
{
    (void)state;
    before = leaks_now();
    relock_wire_init(&wire);
    connect_wire();
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_wire_deinit(&wire);
    close(peer);
    peer = -1;
    return leaks_none_since(&before) ? 0 : -1;
}

static void say(const char *bytes)
{
    assert_int_equal(send(peer, bytes, strlen(bytes), MSG_NOSIGNAL), strlen(bytes));
}

/* What the wire has sent, of `len` bytes at most. */
static size_t hear(char *bytes, size_t len)
{
    ssize_t n = recv(peer, bytes, len, MSG_DONTWAIT);

    return n > 0 ? (size_t)n : 0;
}

static void takes(const char *text)
{
    struct redisReply *reply;

    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_OK);
    assert_true(relock_reply_is(reply, text));
    relock_reply_free(reply);
}

static void takes_nothing(void)
{
    struct redisReply *reply;

    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_AGAIN);
}

/* ---- coming in ------------------------------------------------------------------------------ */

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

static void a_reply_longer_than_any_that_is_asked_for_is_a_failure(void **state)
{
    static char text[2 << 20];
    size_t sent = 0;
    int r = RELOCK_OK;

    (void)state;

    memset(text, 'x', sizeof(text));
    say("$2097152\r\n");
    while (r >= 0) {
        ssize_t n = send(peer, text, sizeof(text) - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        sent += n > 0 ? (size_t)n : 0;
        assert_true(sent < sizeof(text));
        takes_nothing();
        r = relock_wire_fill(&wire);
    }
    assert_int_equal(r, RELOCK_E_CONN);
    assert_non_null(strstr(wire.why, "longer"));
}

/* So many ones as one text, to be freed. */
static char *array_of_ones(size_t n)
{
    char *text = malloc(16 + (4 * n));
    int at = sprintf(text, "*%zu\r\n", n);

    for (size_t i = 0; i < n; i++, at += 4)
        memcpy(text + at, ":1\r\n", 5);
    return text;
}

static void a_reply_that_goes_on_for_ever_is_a_failure(void **state)
{
    char *bytes = array_of_ones(1000);
    struct redisReply *reply;
    int r = RELOCK_OK;

    (void)state;

    say("*1000\r\n"); /* of arrays */
    for (int i = 0; r == RELOCK_OK && i < 900; i++) {
        say(bytes);
        r = relock_wire_fill(&wire);
        if (r == RELOCK_OK)
            assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_AGAIN);
    }
    assert_int_equal(r, RELOCK_E_CONN);
    assert_non_null(strstr(wire.why, "longer"));
    free(bytes);
}

static void replies_may_go_on_for_ever(void **state)
{
    char bytes[16001];

    (void)state;

    for (int i = 0; i < 8000; i++)
        memcpy(bytes + (2 * (size_t)i), i % 2 == 0 ? "+x" : "\r\n", 2);
    bytes[sizeof(bytes) - 1] = '\0';
    for (int sent = 0; sent < LARGE; sent += (int)strlen(bytes)) {
        say(bytes);
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
        for (int i = 0; i < 4000; i++)
            takes("x");
        takes_nothing();
    }
}

/* The reader of hiredis before 1.0 makes room for as many as the server says. */
static void an_array_of_more_than_any_that_is_asked_for_is_a_failure(void **state)
{
    static const char *const counts[] = {"*1025\r\n", "*2147483647\r\n", "*2\r\n*1025\r\n"};
    struct redisReply *reply;

    (void)state;

    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        relock_wire_close(&wire);
        connect_wire();
        say(counts[i]);
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
        assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_E_CONN);
        assert_true(*wire.why);
    }
}

static void an_array_of_as_many_as_may_be_is_taken(void **state)
{
    char *bytes = array_of_ones(1024);
    struct redisReply *reply;

    (void)state;

    say(bytes);
    free(bytes);
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_OK);
    assert_non_null(relock_reply_at(reply, 1023));
    relock_reply_free(reply);
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

static void nothing_to_read_is_no_failure(void **state)
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

static void what_is_no_resp_is_a_failure(void **state)
{
    static const char *const others[] = {"HTTP/1.1 400 Bad Request\r\n", "\x15\x03\x01", "*x\r\n"};

    (void)state;

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct redisReply *reply;

        relock_wire_close(&wire);
        connect_wire();
        say(others[i]);
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
        assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_E_CONN);
        assert_string_not_equal(wire.why, "");
    }
}

/* ---- going out ------------------------------------------------------------------------------ */

static void what_was_appended_goes_out_once(void **state)
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

static void what_does_not_fit_goes_out_later(void **state)
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
static void sending_to_who_is_gone_raises_no_signal(void **state)
{
    (void)state;

    close(peer);
    peer = -1;
    relock_command_word(&wire.out, "PING");
    assert_int_equal(relock_wire_flush(&wire), RELOCK_E_CONN);
    assert_string_not_equal(wire.why, "");
}

static void a_command_that_is_not_all_there_does_not_go_out(void **state)
{
    char bytes[64];

    (void)state;

    relock_command_word(&wire.out, "PING");
    wire.out.failed = true;
    assert_int_equal(relock_wire_flush(&wire), RELOCK_E_NOMEM);
    assert_int_equal(hear(bytes, sizeof(bytes)), 0);
    assert_non_null(strstr(wire.why, "memory"));
}

/* ---- closing -------------------------------------------------------------------------------- */

static void after_closing_nothing_of_the_old_connection_is_left(void **state)
{
    char bytes[64];

    (void)state;

    say("$5\r\nhel");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    relock_command_word(&wire.out, "OLD");
    relock_wire_close(&wire);
    assert_int_equal(wire.fd, -1);
    assert_int_equal(recv(peer, bytes, sizeof(bytes), 0), 0);

    connect_wire();
    relock_command_word(&wire.out, "NEW");
    assert_int_equal(relock_wire_flush(&wire), RELOCK_OK);
    assert_int_equal(hear(bytes, sizeof(bytes)), strlen("$3\r\nNEW\r\n"));
    say("+lo\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("lo");
}

static void half_of_what_was_to_go_out_is_forgotten_with_the_connection(void **state)
{
    char *large = calloc(1, LARGE);
    char bytes[64];

    (void)state;

    assert_non_null(large);
    relock_command_arg(&wire.out, large, LARGE);
    assert_int_equal(relock_wire_flush(&wire), RELOCK_AGAIN);
    assert_true(wire.sent > 0);
    relock_wire_close(&wire);

    connect_wire();
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

#define WIRE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(a_reply_may_come_byte_by_byte),
        WIRE_TEST(replies_that_come_together_are_taken_one_by_one),
        WIRE_TEST(an_error_or_nil_is_a_reply_like_others),
        WIRE_TEST(a_reply_may_be_larger_than_one_read),
        WIRE_TEST(a_reply_longer_than_any_that_is_asked_for_is_a_failure),
        WIRE_TEST(a_reply_that_goes_on_for_ever_is_a_failure),
        WIRE_TEST(replies_may_go_on_for_ever),
        WIRE_TEST(an_array_of_more_than_any_that_is_asked_for_is_a_failure),
        WIRE_TEST(an_array_of_as_many_as_may_be_is_taken),
        WIRE_TEST(a_wire_is_quiet_while_nothing_is_left_to_take),
        WIRE_TEST(nothing_to_read_is_no_failure),
        WIRE_TEST(a_connection_closed_in_the_middle_of_a_reply_is_a_failure),
        WIRE_TEST(what_is_no_resp_is_a_failure),
        WIRE_TEST(what_was_appended_goes_out_once),
        WIRE_TEST(what_does_not_fit_goes_out_later),
        WIRE_TEST(sending_to_who_is_gone_raises_no_signal),
        WIRE_TEST(a_command_that_is_not_all_there_does_not_go_out),
        WIRE_TEST(after_closing_nothing_of_the_old_connection_is_left),
        WIRE_TEST(half_of_what_was_to_go_out_is_forgotten_with_the_connection),
        WIRE_TEST(closing_twice_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
