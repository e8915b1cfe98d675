/* Replies of cluster nodes about slots, and replies that no node should give. */
#include "redis/deployment/private.h"
#include "redis/deployment/slot_map.h"

#include "redis/server/reply.h"

#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* A map of one range, whose master is this. */
#define MAP(first, last, master) "*1\r\n*3\r\n:" first "\r\n:" last "\r\n" master
#define NODE(host, port) "*3\r\n" host ":" port "\r\n$2\r\nid\r\n"
#define HOST "$9\r\n127.0.0.1\r\n"

static struct relock_slot_range range;

static bool reads(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    bool is_read;

    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    is_read = relock_slot_map_read(reply, 0, &range);
    relock_reply_free(reply);
    redisReaderFree(reader);
    return is_read;
}

static void a_range_has_its_slots_and_its_master(void **state)
{
    (void)state;
    assert_true(reads(MAP("5461", "10922", NODE(HOST, "7001"))));
    assert_int_equal(range.first, 5461);
    assert_int_equal(range.last, 10922);
    assert_string_equal(range.master.host, "127.0.0.1");
    assert_int_equal(range.master.port, 7001);
    assert_true(reads(MAP("16383", "16383", NODE("$3\r\n::1\r\n", "65535"))));
    assert_string_equal(range.master.host, "::1");
}

static void a_master_may_be_where_it_was_asked(void **state)
{
    static const char *const hosts[] = {"$-1\r\n", "$0\r\n\r\n"};
    char bytes[128];

    (void)state;
    for (size_t i = 0; i < COUNT(hosts); i++) {
        (void)snprintf(bytes, sizeof(bytes), "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n%s:7001\r\n", hosts[i]);
        assert_true(reads(bytes));
        assert_string_equal(range.master.host, "");
    }
}

static void an_unknown_host_name_is_replaced_by_the_address(void **state)
{
    (void)state;
    assert_false(reads(MAP("0", "1", NODE("$1\r\n?\r\n", "7001"))));
    assert_true(reads(MAP("0", "1",
                          "*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n"
                          "*4\r\n$4\r\nx-ip\r\n$1\r\n1\r\n$2\r\nip\r\n$8\r\n10.0.0.7\r\n")));
    assert_string_equal(range.master.host, "10.0.0.7");
    assert_false(reads(MAP("0", "1",
                           "*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n"
                           "*2\r\n$2\r\nip\r\n$0\r\n\r\n")));
    assert_false(reads(MAP("0", "1", "*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n*1\r\n$2\r\nip\r\n")));
}

static void a_malformed_range_is_left_out(void **state)
{
    static const char *const maps[] = {
        "*0\r\n",
        "$2\r\nno\r\n",
        ":1\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*0\r\n",
        MAP("-1", "1", NODE(HOST, "7001")),
        MAP("0", "16384", NODE(HOST, "7001")),
        MAP("2", "1", NODE(HOST, "7001")),
        MAP("0", "9223372036854775807", NODE(HOST, "7001")),
        MAP("0", "1", NODE(HOST, "0")),
        MAP("0", "1", NODE(HOST, "65536")),
        MAP("0", "1", NODE(HOST, "-7001")),
        MAP("0", "1", ":1\r\n"),
        MAP("0", "1", "*0\r\n"),
        MAP("0", "1", NODE("*0\r\n", "7001")),
    };
    char longest[RELOCK_HOST_MAX + 120];

    (void)state;
    for (size_t i = 0; i < COUNT(maps); i++)
        assert_false(reads(maps[i]));
    (void)snprintf(longest, sizeof(longest), "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$%d\r\n%0*d\r\n:1\r\n",
                   RELOCK_HOST_MAX, RELOCK_HOST_MAX, 1);
    assert_true(reads(longest));
    (void)snprintf(longest, sizeof(longest), "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$%d\r\n%0*d\r\n:1\r\n",
                   RELOCK_HOST_MAX + 1, RELOCK_HOST_MAX + 1, 1);
    assert_false(reads(longest));
}

static void a_redirection_names_the_node(void **state)
{
    static const struct {
        const char *error;
        enum relock_redirect_kind kind;
        unsigned slot;
        const char *host;
        unsigned port;
    } errors[] = {
        {"MOVED 3999 127.0.0.1:6381", RELOCK_REDIRECT_MOVED, 3999, "127.0.0.1", 6381},
        {"ASK 16383 node-7.example.com:1", RELOCK_REDIRECT_ASK, 16383, "node-7.example.com", 1},
        {"MOVED 0 ::1:65535", RELOCK_REDIRECT_MOVED, 0, "::1", 65535},
        {"MOVED 7 :6381", RELOCK_REDIRECT_MOVED, 7, "", 6381},
    };
    struct relock_redirect redirect;

    (void)state;
    for (size_t i = 0; i < COUNT(errors); i++) {
        assert_true(relock_slot_map_redirect(errors[i].error, &redirect));
        assert_int_equal(redirect.kind, errors[i].kind);
        assert_int_equal(redirect.slot, errors[i].slot);
        assert_string_equal(redirect.node.host, errors[i].host);
        assert_int_equal(redirect.node.port, errors[i].port);
    }
}

static void other_errors_name_none(void **state)
{
    static const char *const errors[] = {
        "",
        "MOVED",
        "MOVED ",
        "MOVED 1",
        "MOVED 1 ",
        "MOVED 16384 h:1",
        "MOVED -1 h:1",
        "MOVED 1 h",
        "MOVED 1 h:",
        "MOVED 1 h:0",
        "MOVED 1 h:65536",
        "MOVED 1 h:1x",
        "MOVED 1h:1",
        "MOVED x h:1",
        "MOVED 1 ?:1",
        "MOVED 99999999999999999999 h:1",
        "ASKING 1 h:1",
        "moved 1 h:1",
        "ERR MOVED 1 h:1",
        "TRYAGAIN",
        "ASK 1 h: 1",
    };
    struct relock_redirect redirect;

    (void)state;
    for (size_t i = 0; i < COUNT(errors); i++)
        assert_false(relock_slot_map_redirect(errors[i], &redirect));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_has_its_slots_and_its_master),
        cmocka_unit_test(a_master_may_be_where_it_was_asked),
        cmocka_unit_test(an_unknown_host_name_is_replaced_by_the_address),
        cmocka_unit_test(a_malformed_range_is_left_out),
        cmocka_unit_test(a_redirection_names_the_node),
        cmocka_unit_test(other_errors_name_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
