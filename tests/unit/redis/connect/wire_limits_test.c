/* The limits on what a server may send. */
#include "pair.h"

#include "base/status.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LARGE (4 << 20)

static void a_reply_above_the_length_limit_is_an_error(void **state)
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

/* A string of so many ones. Free it. */
static char *array_of_ones(size_t n)
{
    char *text = malloc(16 + (4 * n));
    int at = sprintf(text, "*%zu\r\n", n);

    for (size_t i = 0; i < n; i++, at += 4)
        memcpy(text + at, ":1\r\n", 5);
    return text;
}

static void an_endless_reply_is_an_error(void **state)
{
    char *bytes = array_of_ones(1000);
    struct redisReply *reply;
    int r = RELOCK_OK;

    (void)state;

    say("*1000\r\n"); /* nested arrays */
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

static void the_number_of_replies_is_unlimited(void **state)
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

static void are_errors(const char *const *bytes, size_t n)
{
    struct redisReply *reply;

    for (size_t i = 0; i < n; i++) {
        relock_wire_close(&wire);
        pair_connect();
        say(bytes[i]);
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
        assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_E_CONN);
        assert_true(*wire.why);
    }
}

/* Before 1.0, hiredis allocates as many elements as the server announces. */
static void an_array_above_the_limit_is_an_error(void **state)
{
    static const char *const counts[] = {"*1025\r\n", "*2147483647\r\n", "*2\r\n*1025\r\n"};

    (void)state;

    are_errors(counts, sizeof(counts) / sizeof(*counts));
}

static void an_array_at_the_limit_is_accepted(void **state)
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

/* hiredis 1.0 to 1.4 recurses as deep as the server says, until memory or the stack ends. */
static void endlessly_nested_arrays_are_an_error(void **state)
{
    static const char *const opens[] = {"*1\r\n", "*1024\r\n"};

    (void)state;

    for (size_t i = 0; i < sizeof(opens) / sizeof(*opens); i++) {
        struct redisReply *reply;
        int r = RELOCK_AGAIN;

        relock_wire_close(&wire);
        pair_connect();
        for (int depth = 0; r == RELOCK_AGAIN && depth < 100000; depth++) {
            say(opens[i]);
            assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
            r = relock_wire_take(&wire, &reply);
            assert_true(depth < 8 || r != RELOCK_AGAIN);
        }
        assert_int_equal(r, RELOCK_E_CONN);
        assert_true(*wire.why);
    }
}

/* Servers send these only in RESP3. One that contains a nil crashes hiredis 1.0.0. */
static void pushes_maps_and_sets_are_errors(void **state)
{
    static const char *const opens[] = {">1\r\n$-1\r\n", "%1\r\n+a\r\n$-1\r\n", "~1\r\n$-1\r\n",
                                        "|1\r\n+a\r\n$-1\r\n", "*1\r\n>1\r\n$-1\r\n"};

    (void)state;

    are_errors(opens, sizeof(opens) / sizeof(*opens));
}

static void arrays_at_the_depth_limit_are_accepted(void **state)
{
    struct redisReply *reply;

    (void)state;

    say("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_OK);
    relock_reply_free(reply);
}

/* Every slot by itself, in all more than a megabyte. */
static void the_map_of_a_cluster_may_be_longer_than_other_replies(void **state)
{
    static const char head[] = "*16384\r\n", range[] = "*3\r\n:1\r\n:1\r\n$60\r\n%060d\r\n";
    struct redisReply *reply;
    char text[128];
    int r = RELOCK_AGAIN;

    (void)state;
    relock_wire_close(&wire);
    wire.takes_long = true;
    pair_connect();
    say(head);
    for (int slot = 0; slot < 16384; slot++) {
        (void)snprintf(text, sizeof(text), range, slot);
        say(text);
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
        r = relock_wire_take(&wire, &reply);
        assert_int_equal(r, slot < 16383 ? RELOCK_AGAIN : RELOCK_OK);
    }
    assert_non_null(relock_reply_at(reply, 16383));
    relock_reply_free(reply);
    say("*16385\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    assert_int_equal(relock_wire_take(&wire, &reply), RELOCK_E_CONN);
}

static void the_map_of_a_cluster_has_a_limit_too(void **state)
{
    static char text[1 << 16];
    struct redisReply *reply;
    size_t n_sent = 0;
    int r = RELOCK_AGAIN;

    (void)state;
    relock_wire_close(&wire);
    wire.takes_long = true;
    pair_connect();
    memset(text, 'x', sizeof(text) - 1);
    say("*16384\r\n");
    for (; r == RELOCK_AGAIN && n_sent < 4 * (size_t)LARGE; n_sent += sizeof(text)) {
        say("$65535\r\n");
        say(text);
        say("\r\n");
        r = relock_wire_fill(&wire);
        while (r == RELOCK_OK)
            r = relock_wire_fill(&wire);
        if (r == RELOCK_AGAIN)
            r = relock_wire_take(&wire, &reply);
    }
    assert_int_equal(r, RELOCK_E_CONN);
    assert_non_null(strstr(wire.why, "longer"));
    assert_true(n_sent > LARGE); /* a real map may be as long */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(a_reply_above_the_length_limit_is_an_error),
        WIRE_TEST(an_endless_reply_is_an_error),
        WIRE_TEST(the_number_of_replies_is_unlimited),
        WIRE_TEST(an_array_above_the_limit_is_an_error),
        WIRE_TEST(an_array_at_the_limit_is_accepted),
        WIRE_TEST(the_map_of_a_cluster_may_be_longer_than_other_replies),
        WIRE_TEST(the_map_of_a_cluster_has_a_limit_too),
        WIRE_TEST(endlessly_nested_arrays_are_an_error),
        WIRE_TEST(pushes_maps_and_sets_are_errors),
        WIRE_TEST(arrays_at_the_depth_limit_are_accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
