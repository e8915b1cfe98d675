/* Replies of Redis, of every type. */
#include "redis/server/reply.h"

#include <relock.h>

#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* The reply that these bytes are on the wire. */
static struct redisReply *reply_of(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

enum kind { NIL, INTEGER, TEXT, ARRAY, ERROR };

static const struct {
    const char *bytes;
    enum kind kind;
} kinds[] = {
    {"$-1\r\n", NIL},        {"*-1\r\n", NIL},       {":0\r\n", INTEGER},  {":-2\r\n", INTEGER},
    {"+OK\r\n", TEXT},       {"$2\r\nOK\r\n", TEXT}, {"$0\r\n\r\n", TEXT}, {"*0\r\n", ARRAY},
    {"*1\r\n:1\r\n", ARRAY}, {"-ERR no\r\n", ERROR},
};

static void each_accessor_accepts_only_its_own_kind(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct redisReply *reply = reply_of(kinds[i].bytes);
        int64_t integer = 4711;
        const char *text = "untouched";
        size_t len = 4711;

        assert_int_equal(relock_reply_is_nil(reply), kinds[i].kind == NIL);
        assert_int_equal(relock_reply_integer(reply, &integer), kinds[i].kind == INTEGER);
        assert_int_equal(relock_reply_text(reply, &text, &len), kinds[i].kind == TEXT);
        assert_int_equal(relock_reply_error(reply) != NULL, kinds[i].kind == ERROR);
        if (kinds[i].kind != INTEGER)
            assert_int_equal(integer, 4711);
        if (kinds[i].kind != TEXT) {
            assert_string_equal(text, "untouched");
            assert_int_equal(len, 4711);
            assert_false(relock_reply_is(reply, "OK"));
            assert_false(relock_reply_is(reply, ""));
        }
        if (kinds[i].kind != ARRAY)
            assert_null(relock_reply_at(reply, 0));
        assert_null(relock_reply_free(reply));
    }
}

static void null_is_no_kind_of_reply(void **state)
{
    int64_t integer;
    const char *text;
    size_t len;

    (void)state;

    assert_false(relock_reply_integer(NULL, &integer));
    assert_false(relock_reply_text(NULL, &text, &len));
    assert_false(relock_reply_is(NULL, ""));
    assert_null(relock_reply_at(NULL, 0));
    assert_null(relock_reply_free(NULL));
}

static void integers_have_their_full_range(void **state)
{
    static const struct {
        const char *bytes;
        int64_t integer;
    } cases[] = {
        {":0\r\n", 0},
        {":-1\r\n", -1},
        {":7000000012\r\n", 7000000012},
        {":9223372036854775807\r\n", INT64_MAX},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct redisReply *reply = reply_of(cases[i].bytes);
        int64_t integer;

        assert_true(relock_reply_integer(reply, &integer));
        assert_true(integer == cases[i].integer);
        relock_reply_free(reply);
    }
}

static void a_text_is_compared_completely(void **state)
{
    struct redisReply *status = reply_of("+OK\r\n");
    struct redisReply *string = reply_of("$2\r\nOK\r\n");
    struct redisReply *longer = reply_of("$3\r\nOK!\r\n");

    (void)state;

    assert_true(relock_reply_is(status, "OK"));
    assert_true(relock_reply_is(string, "OK"));
    assert_false(relock_reply_is(string, "O"));
    assert_false(relock_reply_is(string, "ok"));
    assert_false(relock_reply_is(string, ""));
    assert_false(relock_reply_is(string, "OK!"));
    assert_false(relock_reply_is(longer, "OK"));
    relock_reply_free(status);
    relock_reply_free(string);
    relock_reply_free(longer);
}

static void no_element_is_read_beyond_the_end_of_an_array(void **state)
{
    struct redisReply *reply = reply_of("*3\r\n$7\r\nmessage\r\n*1\r\n:5\r\n$-1\r\n");
    int64_t integer;

    (void)state;

    assert_true(relock_reply_is(relock_reply_at(reply, 0), "message"));
    assert_true(relock_reply_integer(relock_reply_at(relock_reply_at(reply, 1), 0), &integer));
    assert_int_equal(integer, 5);
    assert_null(relock_reply_at(relock_reply_at(reply, 1), 1));
    assert_true(relock_reply_is_nil(relock_reply_at(reply, 2)));
    assert_null(relock_reply_at(reply, 3));
    assert_null(relock_reply_at(reply, SIZE_MAX));
    relock_reply_free(reply);
}

static void a_field_of_info_is_found_by_its_whole_name(void **state)
{
    struct redisReply *info =
        reply_of("$46\r\n# Memory\r\nmaxmemory_human:0B\r\nmaxmemory:7\r\na\r\n\r\n");
    struct redisReply *error = reply_of("-NOPERM no\r\n");
    const char *value = "untouched";
    size_t len = 4711;

    (void)state;

    assert_false(relock_reply_field(info, "memory", &value, &len));
    assert_false(relock_reply_field(info, "a", &value, &len));
    assert_false(relock_reply_field(error, "a", &value, &len));
    assert_false(relock_reply_field(NULL, "a", &value, &len));
    assert_string_equal(value, "untouched");
    assert_int_equal(len, 4711);
    assert_true(relock_reply_field(info, "maxmemory", &value, &len));
    assert_int_equal(len, 1);
    assert_int_equal(*value, '7');
    relock_reply_free(info);
    relock_reply_free(error);
}

static void an_error_is_its_text(void **state)
{
    struct redisReply *reply = reply_of("-NOPERM this user has no permissions\r\n");

    (void)state;

    assert_string_equal(relock_reply_error(reply), "NOPERM this user has no permissions");
    relock_reply_free(reply);
}

/* ---- refusals ------------------------------------------------------------------------------ */

#define SCRIPT_ERROR "ERR Error running script (call to f_9a1e): @user_script:3: @user_script: 3: "

static const struct {
    const char *error;
    enum relock_refusal refusal;
} refusals[] = {
    {"NOSCRIPT No matching script. Please use EVAL.", RELOCK_REFUSED_SCRIPT},
    {"NOAUTH Authentication required.", RELOCK_REFUSED_USER},
    {"WRONGPASS invalid username-password pair or user is disabled.", RELOCK_REFUSED_USER},
    {"NOPERM User a has no permissions to run the 'evalsha' command", RELOCK_REFUSED_USER},
    {"LOADING Redis is loading the dataset in memory", RELOCK_REFUSED_FOR_NOW},
    {"BUSY Redis is busy running a script.", RELOCK_REFUSED_FOR_NOW},
    {"MASTERDOWN Link with MASTER is down", RELOCK_REFUSED_HERE},
    {"READONLY You can't write against a read only replica.", RELOCK_REFUSED_HERE},
    {"CLUSTERDOWN The cluster is down", RELOCK_REFUSED_FOR_NOW},
    {"TRYAGAIN Multiple keys request during rehashing of slot", RELOCK_REFUSED_FOR_NOW},
    {"NOREPLICAS Not enough good replicas to write.", RELOCK_REFUSED_FOR_NOW},

    {"WRONGTYPE Operation against a key holding the wrong kind of value", RELOCK_REFUSED},
    {"OOM command not allowed when used memory > 'maxmemory'.", RELOCK_REFUSED},
    {"MISCONF Redis is configured to save RDB snapshots", RELOCK_REFUSED},
    {"DENIED Redis is running in protected mode", RELOCK_REFUSED},
    {"ERR max number of clients reached", RELOCK_REFUSED_FOR_NOW},
    {"ERR max number of clients + cluster connections reached", RELOCK_REFUSED_FOR_NOW},
    {"ERR unknown command", RELOCK_REFUSED_UNKNOWN},
    {"ERR unsupported command 'HELLO'", RELOCK_REFUSED_UNKNOWN},
    {"invalid request", RELOCK_REFUSED_UNKNOWN},
    {"", RELOCK_REFUSED_UNKNOWN},

    /* a code alone, and a word that only begins like a code */
    {"LOADING", RELOCK_REFUSED_FOR_NOW},
    {"BUSYKEY Target key name already exists.", RELOCK_REFUSED_UNKNOWN},
    {"BUSYGROUP Consumer Group name already exists", RELOCK_REFUSED_UNKNOWN},
    {"ERR is it LOADING or BUSY?", RELOCK_REFUSED_UNKNOWN},

    /* from a script: since 7.0, and before */
    {"NOPERM this user has no permissions to access the 'k' key script: 9a1e, on @user_script:3.",
     RELOCK_REFUSED_USER},
    {"WRONGTYPE Operation against a key holding the wrong kind of value script: 9a1e",
     RELOCK_REFUSED},
    {SCRIPT_ERROR "-READONLY You can't write against a read only replica.", RELOCK_REFUSED_HERE},
    {SCRIPT_ERROR "-NOPERM this user has no permissions to run the 'hset' command",
     RELOCK_REFUSED_USER},
    {SCRIPT_ERROR "The user executing the script can't run this command or subcommand",
     RELOCK_REFUSED_USER},
    {"ERR ACL failure in script: User a has no permissions to run the 'hset' command",
     RELOCK_REFUSED_USER},
    {SCRIPT_ERROR "-NOREPLICAS Not enough good replicas to write.", RELOCK_REFUSED_FOR_NOW},
    {SCRIPT_ERROR "-WRONGTYPE Operation against a key", RELOCK_REFUSED},
    {SCRIPT_ERROR "-OOM command not allowed", RELOCK_REFUSED},
    {SCRIPT_ERROR "-BUSYKEY Target key name already exists.", RELOCK_REFUSED_UNKNOWN},
};

/* The reply to bytes of another program is an unknown error, too. */
static void an_error_of_a_script_is_the_reply_to_a_script(void **state)
{
    static const struct {
        const char *bytes;
        bool fits;
    } errors[] = {
        {"-ERR Unknown Redis command called from script script: 05, on @user_script:40.\r\n", true},
        {"-ERR Error running script (call to f_05): @user_script:40: Unknown command\r\n", true},
        {"-ERR Unknown Redis command called from script\r\n", true},
        {"-WRONGTYPE Operation against a key\r\n", true},
        {"-ERR unknown command 'relock:', with args beginning with: 'warning'\r\n", false},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(errors); i++) {
        struct redisReply *reply = reply_of(errors[i].bytes);

        assert_int_equal(relock_reply_fits(reply, RELOCK_REPLY_NO_ERR), errors[i].fits);
        relock_reply_free(reply);
    }
}

static void an_error_is_recognized_by_its_code(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(refusals); i++)
        if (relock_refusal_of(refusals[i].error) != refusals[i].refusal)
            fail_msg("%s: %d", refusals[i].error, (int)relock_refusal_of(refusals[i].error));
}

static void a_denied_right_has_its_own_result(void **state)
{
    (void)state;

    assert_int_equal(relock_refusal_result(RELOCK_REFUSED_USER), RELOCK_E_AUTH);
    assert_int_equal(relock_refusal_result(RELOCK_REFUSED), RELOCK_E_SERVER);
    assert_int_equal(relock_refusal_result(RELOCK_REFUSED_UNKNOWN), RELOCK_E_SERVER);
    assert_int_equal(relock_refusal_result(RELOCK_REFUSED_FOR_NOW), RELOCK_E_SERVER);
    assert_int_equal(relock_refusal_result(RELOCK_REFUSED_HERE), RELOCK_E_SERVER);
    assert_int_equal(relock_refusal_result(RELOCK_REFUSED_SCRIPT), RELOCK_E_SERVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_accessor_accepts_only_its_own_kind),
        cmocka_unit_test(null_is_no_kind_of_reply),
        cmocka_unit_test(integers_have_their_full_range),
        cmocka_unit_test(a_text_is_compared_completely),
        cmocka_unit_test(no_element_is_read_beyond_the_end_of_an_array),
        cmocka_unit_test(a_field_of_info_is_found_by_its_whole_name),
        cmocka_unit_test(an_error_is_its_text),
        cmocka_unit_test(an_error_of_a_script_is_the_reply_to_a_script),
        cmocka_unit_test(an_error_is_recognized_by_its_code),
        cmocka_unit_test(a_denied_right_has_its_own_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
