/* The first words on a connection, and what the server says to them. */
#include "redis/login.h"

#include "base/status.h"
#include "redis/command.h"
#include "redis/origin.h"
#include "redis/reply.h"
#include "support/alloc.h"
#include "support/log.h"

#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define HELLO(mode, role) "*6\r\n$5\r\nproto\r\n:2\r\n$4\r\nmode\r\n" mode "$4\r\nrole\r\n" role
#define MASTER HELLO("$10\r\nstandalone\r\n", "$6\r\nmaster\r\n")
#define RUN "$20\r\n# Server\r\nrun_id:1\r\n\r\n"
#define INFO "id=7 addr=127.0.0.1:40312 laddr=127.0.0.1:6379 fd=8 name= db=0\n"

static char path[] = "/s", user[] = "u", password[] = "hidden", name[] = "shop:id",
            label[] = "h:6379";

/* Server with all that a login can have; each test takes away what it does not want. */
static struct relock_server server;
static struct relock_login login;
static struct log *lines;
static struct relock_log to_lines;
static atomic_uint warned;

/* One that wants as little as can be. */
static struct relock_server plain_server(void)
{
    return (struct relock_server){.label = label, .log = &to_lines, .warned = &warned};
}

static int begin(void **state)
{
    (void)state;
    lines = log_new();
    to_lines = (struct relock_log){.level = RELOCK_LOG_DEBUG, .sink = log_write, .arg = lines};
    atomic_store(&warned, 0);
    server = plain_server();
    server.url = (struct relock_url){.user = user, .password = password, .db = 3};
    server.name = name;
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_login_end(&login);
    log_free(lines);
    return 0;
}

static void begins_with(const char *bytes)
{
    struct relock_buffer buffer = {0};

    relock_login_begin(&login, &server, &buffer);
    assert_int_equal(buffer.len, strlen(bytes));
    assert_memory_equal(buffer.data, bytes, buffer.len);
    relock_buffer_deinit(&buffer);
}

static void begins(void)
{
    struct relock_buffer buffer = {0};

    relock_login_begin(&login, &server, &buffer);
    relock_buffer_deinit(&buffer);
}

/* Takes a reply, as it would have come over the wire. */
static int take(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    int r;

    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    r = relock_login_take(&login, reply);
    freeReplyObject(reply);
    redisReaderFree(reader);
    return r;
}

static int take_info(const char *info)
{
    char bytes[256];

    snprintf(bytes, sizeof(bytes), "$%zu\r\n%s\r\n", strlen(info), info);
    return take(bytes);
}

/* ---- what is said --------------------------------------------------------------------------- */

#define ASKS_HELLO "*1\r\n$5\r\nHELLO\r\n"
#define ASKS_INFO "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n"

static void all_that_is_wanted_is_said_in_one_piece(void **state)
{
    (void)state;

    begins_with("*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$6\r\nhidden\r\n" ASKS_HELLO
                "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$7\r\nshop:id\r\n"
                "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n" ASKS_INFO);
}

static void what_is_not_wanted_is_not_said(void **state)
{
    (void)state;

    server.url.user = NULL;
    server.name = NULL;
    server.url.db = 0;
    begins_with("*2\r\n$4\r\nAUTH\r\n$6\r\nhidden\r\n" ASKS_HELLO ASKS_INFO);
    server.url.password = NULL;
    begins_with(ASKS_HELLO ASKS_INFO);
    server.name = name;
    begins_with(ASKS_HELLO "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$7\r\nshop:id\r\n" ASKS_INFO);
}

/* ---- what is answered ----------------------------------------------------------------------- */

static void a_login_is_over_with_its_last_reply(void **state)
{
    (void)state;

    begins();
    assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
    assert_int_equal(take(MASTER), RELOCK_AGAIN);
    assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
    assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
    assert_int_equal(take(RUN), RELOCK_AGAIN);
    assert_int_equal(take_info(INFO), RELOCK_OK);
    assert_non_null(login.origin);

    relock_login_end(&login);
    server.url.password = NULL;
    server.name = NULL;
    server.url.db = 0;
    begins();
    assert_int_equal(take(MASTER), RELOCK_AGAIN);
    assert_int_equal(take(RUN), RELOCK_AGAIN);
    assert_int_equal(take_info(INFO), RELOCK_OK);
    assert_non_null(login.origin);
}

static void the_origin_is_what_the_server_calls_the_connection(void **state)
{
    static const char bytes[] = "*6\r\n$6\r\nCLIENT\r\n$4\r\nKILL\r\n$2\r\nID\r\n$1\r\n7\r\n"
                                "$4\r\nADDR\r\n$15\r\n127.0.0.1:40312\r\n";
    struct relock_buffer buffer = {0};

    (void)state;

    server = plain_server();
    begins();
    assert_int_equal(take(MASTER), RELOCK_AGAIN);
    assert_int_equal(take(RUN), RELOCK_AGAIN);
    assert_int_equal(take_info(INFO), RELOCK_OK);
    relock_origin_kill(login.origin, NULL, &buffer);
    assert_int_equal(buffer.len, strlen(bytes));
    assert_memory_equal(buffer.data, bytes, buffer.len);
    relock_buffer_deinit(&buffer);
}

/* Else what goes out on it could not be stopped. */
static void a_connection_whose_name_there_is_no_memory_for_is_none(void **state)
{
    redisReply info = {.type = REDIS_REPLY_STRING, .str = (char[]){INFO}, .len = sizeof(INFO) - 1};
    int r;

    (void)state;
    if (!alloc_is_ours())
        skip();
    server = plain_server();
    begins();
    assert_int_equal(take(MASTER), RELOCK_AGAIN);
    assert_int_equal(take(RUN), RELOCK_AGAIN);
    alloc_fail(ALLOC_MINE, 1, 1);
    r = relock_login_take(&login, &info);
    assert_int_equal(alloc_stop(), 1);
    assert_int_equal(r, RELOCK_E_NOMEM);
    assert_string_equal(login.why, "h:6379: out of memory for a connection");
}

static void an_address_may_end_the_info(void **state)
{
    static const char kills[] = "$10\r\n[::1]:4031\r\n";
    struct relock_buffer buffer = {0};

    (void)state;

    server = plain_server();
    begins();
    assert_int_equal(take(MASTER), RELOCK_AGAIN);
    assert_int_equal(take(RUN), RELOCK_AGAIN);
    assert_int_equal(take_info("id=18446744073709551615 addr=[::1]:4031\n"), RELOCK_OK);
    relock_origin_kill(login.origin, NULL, &buffer);
    assert_true(buffer.len > strlen(kills));
    assert_memory_equal(buffer.data + buffer.len - strlen(kills), kills, strlen(kills));
    relock_buffer_deinit(&buffer);
}

static void a_server_that_does_not_say_who_we_are_is_as_good(void **state)
{
    static const char *const replies[] = {
        "-ERR Unknown subcommand or wrong number of arguments for 'INFO'\r\n",
        "-NOPERM this user has no permissions to run the 'client|info' command\r\n",
        "$4\r\nid=7\r\n",
        "$9\r\nname= a=b\r\n",
        ":7\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
    };

    (void)state;

    server = plain_server();
    for (size_t i = 0; i < COUNT(replies); i++) {
        begins();
        assert_int_equal(take(MASTER), RELOCK_AGAIN);
        assert_int_equal(take(RUN), RELOCK_AGAIN);
        assert_int_equal(take(replies[i]), RELOCK_OK);
        assert_null(login.origin);
    }
}

/* Takes one away, as for a connection of that run, called so. */
static struct relock_origin *origin_in(const char *run, const char *address)
{
    struct relock_origin *origin = relock_origin_new(run, 7, address, strlen(address));

    assert_non_null(origin);
    return origin;
}

static void only_what_cannot_be_a_strangers_is_killed(void **state)
{
    static const char kills[] = "*6\r\n$6\r\nCLIENT\r\n$4\r\nKILL", pings[] = "*1\r\n$4\r\nPING";
    static const struct {
        const char *run, *killers_run, *address, *sent;
    } cases[] = {
        {"a", "a", "/redis.sock:0", kills},
        {"a", "b", "/redis.sock:0", pings},
        {"a", "a", "127.0.0.1:1", kills},
        {"a", "b", "127.0.0.1:1", pings},
        {"", "b", "127.0.0.1:1", kills},
        {"a", "", "[::1]:10", kills},
        {"", "", "/redis.sock:0", pings},
        {"a", "", "redis.sock:0", pings},
        {"a", NULL, "127.0.0.1:1", kills},
        {"a", NULL, "/redis.sock:0", pings},
        {"a", NULL, "?", pings},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct relock_origin *origin = origin_in(cases[i].run, cases[i].address);
        struct relock_origin *killer =
            cases[i].killers_run ? origin_in(cases[i].killers_run, cases[i].address) : NULL;
        struct relock_buffer buffer = {0};

        relock_origin_kill(origin, killer, &buffer);
        assert_memory_equal(buffer.data, cases[i].sent, strlen(cases[i].sent));
        relock_buffer_deinit(&buffer);
        relock_origin_unref(origin);
        relock_origin_unref(killer);
    }
}

static void a_server_that_does_not_say_which_run_it_is_in_is_as_good(void **state)
{
    static const char *const replies[] = {
        "-NOPERM this user has no permissions to run the 'info' command\r\n",
        "-ERR unknown command 'INFO'\r\n",
        "-ERR not supported by this proxy\r\n",
        "-NOAUTH Authentication required.\r\n",
        "$10\r\n# Server\r\n\r\n",
        "$50\r\n\nrun_id:12345678901234567890123456789012345678901x\r\n",
        "$-1\r\n",
        "*0\r\n",
    };

    (void)state;

    server = plain_server();
    for (size_t i = 0; i < COUNT(replies); i++) {
        begins();
        assert_int_equal(take(MASTER), RELOCK_AGAIN);
        assert_int_equal(take(replies[i]), RELOCK_AGAIN);
        assert_string_equal(login.run, "");
        assert_int_equal(take_info(INFO), RELOCK_OK);
        assert_non_null(login.origin);
        relock_login_end(&login);
    }
    begins();
    assert_int_equal(take(MASTER), RELOCK_AGAIN);
    assert_int_equal(take(RUN), RELOCK_AGAIN);
    assert_string_equal(login.run, "1");
}

static void a_connection_without_its_name_is_as_good(void **state)
{
    (void)state;

    begins();
    assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
    assert_int_equal(take(MASTER), RELOCK_AGAIN);
    assert_int_equal(take("-NOPERM no permissions to run 'client|setname'\r\n"), RELOCK_AGAIN);
    assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
    assert_int_equal(take(RUN), RELOCK_AGAIN);
    assert_int_equal(take_info(INFO), RELOCK_OK);
}

static void whatever_a_server_has_against_a_name_of_ours_it_is_left_out(void **state)
{
    (void)state;

    server.name_is_ours = true;
    begins();
    assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
    assert_int_equal(take(MASTER), RELOCK_AGAIN);
    assert_int_equal(take("-ERR not supported by this proxy\r\n"), RELOCK_AGAIN);
    assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
    assert_int_equal(take(RUN), RELOCK_AGAIN);
    assert_int_equal(take_info(INFO), RELOCK_OK);
}

/* ---- what the server is --------------------------------------------------------------------- */

static int says_hello(const char *hello)
{
    server = plain_server();
    begins();
    return take(hello);
}

static void a_sentinel_is_not_supported(void **state)
{
    (void)state;

    assert_int_equal(says_hello("*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n"), RELOCK_E_UNSUPPORTED);
    assert_memory_equal(login.why, "h:6379: this is a Sentinel", 26);
    assert_non_null(strstr(login.why, "give the address of the master"));
}

static void neither_is_a_node_of_a_cluster_whatever_its_role(void **state)
{
    (void)state;

    assert_int_equal(says_hello(HELLO("$7\r\ncluster\r\n", "$6\r\nmaster\r\n")),
                     RELOCK_E_UNSUPPORTED);
    assert_non_null(strstr(login.why, "h:6379: this is a node of a cluster"));
    assert_int_equal(says_hello(HELLO("$7\r\ncluster\r\n", "$7\r\nreplica\r\n")),
                     RELOCK_E_UNSUPPORTED);
}

static void a_replica_is_told_from_all_other_failures(void **state)
{
    (void)state;

    assert_int_equal(says_hello(HELLO("$10\r\nstandalone\r\n", "$7\r\nreplica\r\n")),
                     RELOCK_REPLICA);
    assert_non_null(strstr(login.why, "h:6379: this is a replica"));
    assert_non_null(strstr(login.why, "its master"));
}

static void a_server_that_does_not_say_what_it_is_is_taken_for_a_master(void **state)
{
    static const char *const hellos[] = {
        "-ERR unknown command `HELLO`, with args beginning with: \r\n",
        "-ERR wrong number of arguments for 'hello' command\r\n",
        "-NOPERM this user has no permissions to run the 'hello' command\r\n",
        "+OK\r\n",
        "*0\r\n",
        "*1\r\n$4\r\nmode\r\n",
        "*3\r\n$4\r\nmode\r\n*1\r\n$8\r\nsentinel\r\n$4\r\nrole\r\n",
        "*2\r\n$7\r\nmodules\r\n*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n",
        "*2\r\n$8\r\nsentinel\r\n$4\r\nmode\r\n",
    };

    (void)state;

    for (size_t i = 0; i < COUNT(hellos); i++)
        assert_int_equal(says_hello(hellos[i]), RELOCK_AGAIN);
    assert_int_equal(log_count(lines, ""), 0);
}

/* ---- what locks do without ------------------------------------------------------------------ */

static void what_is_missing_is_warned_of_once(void **state)
{
    (void)state;

    for (int i = 0; i < 3; i++) {
        server = plain_server();
        server.name = name;
        server.url.path = path;
        begins();
        assert_int_equal(take(MASTER), RELOCK_AGAIN);
        assert_int_equal(take("-NOPERM no permissions to run 'client|setname'\r\n"), RELOCK_AGAIN);
        assert_int_equal(take("-NOPERM no permissions to run 'info'\r\n"), RELOCK_AGAIN);
        assert_int_equal(take("-NOPERM no permissions to run 'client|info'\r\n"), RELOCK_OK);
    }
    assert_int_equal(log_count_grave(lines, RELOCK_LOG_WARNING), 3);
    assert_int_equal(log_count(lines, "h:6379: INFO: NOPERM no permissions"), 1);
    assert_int_equal(log_count(lines, "h:6379: CLIENT SETNAME: NOPERM no permissions"), 1);
    assert_int_equal(log_count(lines, "no name in CLIENT LIST"), 1);
    assert_int_equal(log_count(lines, "h:6379: CLIENT INFO: NOPERM no permissions"), 1);
    assert_int_equal(log_count(lines, "cannot be stopped"), 2);
    assert_int_equal(log_count(lines, "docs/wire.md#rights"), 3);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static const struct refusal {
    int n_ok; /* replies before it */
    const char *error;
    int result;
} refusals[] = {
    {0, "WRONGPASS invalid username-password pair or user is disabled.", RELOCK_E_AUTH},
    {0, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {2, "ERR Client names cannot contain spaces", RELOCK_E_SERVER},
    {2, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {2, "NOAUTH Authentication required.", RELOCK_E_AUTH},
    {2, "ERR max number of clients reached", RELOCK_E_CONN},
    {3, "ERR DB index is out of range", RELOCK_E_SERVER},
    {3, "NOPERM this user has no permissions to run the 'select' command", RELOCK_E_AUTH},
    {3, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {3, "MASTERDOWN Link with MASTER is down", RELOCK_E_CONN},
    {5, "NOAUTH Authentication required.", RELOCK_E_AUTH},
    {5, "ERR max number of clients reached", RELOCK_E_CONN},
    {4, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {1, "NOAUTH HELLO must be called with the client already authenticated", RELOCK_E_AUTH},
    {1, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {1, "ERR max number of clients reached", RELOCK_E_CONN},
};

/* Of what is said to AUTH only the code: a server that does not know it repeats the password. */
static const char *says(const struct refusal *refusal)
{
    return refusal->n_ok == 0 && strncmp(refusal->error, "ERR", 3) == 0 ? "AUTH: ERR"
                                                                        : refusal->error;
}

static void a_refusal_ends_the_login_and_says_why(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(refusals); i++) {
        char bytes[128];

        begins();
        for (int n = 0; n < refusals[i].n_ok; n++)
            assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
        snprintf(bytes, sizeof(bytes), "-%s\r\n", refusals[i].error);
        assert_int_equal(take(bytes), refusals[i].result);
        assert_non_null(strstr(login.why, says(&refusals[i])));
        assert_non_null(strstr(login.why, label));
        assert_null(strstr(login.why, "hidden"));
        assert_null(login.origin);
    }
}

static void a_server_that_repeats_the_password_is_not_quoted(void **state)
{
    static const struct {
        const char *reply;
        int result;
    } replies[] = {
        {"-ERR unknown command 'AUTH', with args beginning with: 'u' 'hidden'\r\n", RELOCK_E_AUTH},
        {"-ERR invalid password\r\n", RELOCK_E_AUTH},
        {"-ERR max number of clients reached\r\n", RELOCK_E_CONN},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(replies); i++) {
        begins();
        assert_int_equal(take(replies[i].reply), replies[i].result);
        assert_string_equal(login.why, "h:6379: AUTH: ERR");
    }
}

static void no_answer_to_the_login_brings_the_password_into_the_log(void **state)
{
    static const struct {
        int n_ok; /* before it */
        const char *error;
        const char *why;
    } answers[] = {
        {0, "-WRONGPASS not hidden\r\n", "h:6379: AUTH: an error with the password in it"},
        {1, "-hidden\r\n", "h:6379: HELLO: an error with the password in it"},
        {2, "-hidden\r\n", "h:6379: CLIENT SETNAME: an error with the password in it"},
        {3, "-ERR hidden no\r\n", "h:6379: SELECT: an error with the password in it"},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(answers); i++) {
        begins();
        for (int n = 0; n < answers[i].n_ok; n++)
            assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
        assert_true(take(answers[i].error) < 0);
        assert_string_equal(login.why, answers[i].why);
    }
}

static void a_long_refusal_is_cut(void **state)
{
    char bytes[4096];

    (void)state;

    memset(bytes, 'x', sizeof(bytes));
    bytes[0] = '-';
    memcpy(bytes + sizeof(bytes) - 3, "\r\n", 3);
    begins();
    assert_int_equal(take(bytes), RELOCK_E_AUTH);
    assert_true(strlen(login.why) < RELOCK_WHY_MAX);
    assert_memory_equal(login.why, "h:6379: AUTH: xxx", 17);
}

#define LOGIN_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOGIN_TEST(all_that_is_wanted_is_said_in_one_piece),
        LOGIN_TEST(what_is_not_wanted_is_not_said),
        LOGIN_TEST(a_login_is_over_with_its_last_reply),
        LOGIN_TEST(the_origin_is_what_the_server_calls_the_connection),
        LOGIN_TEST(a_connection_whose_name_there_is_no_memory_for_is_none),
        LOGIN_TEST(an_address_may_end_the_info),
        LOGIN_TEST(a_server_that_does_not_say_who_we_are_is_as_good),
        LOGIN_TEST(only_what_cannot_be_a_strangers_is_killed),
        LOGIN_TEST(a_server_that_does_not_say_which_run_it_is_in_is_as_good),
        LOGIN_TEST(a_connection_without_its_name_is_as_good),
        LOGIN_TEST(whatever_a_server_has_against_a_name_of_ours_it_is_left_out),
        LOGIN_TEST(a_sentinel_is_not_supported),
        LOGIN_TEST(neither_is_a_node_of_a_cluster_whatever_its_role),
        LOGIN_TEST(a_replica_is_told_from_all_other_failures),
        LOGIN_TEST(a_server_that_does_not_say_what_it_is_is_taken_for_a_master),
        LOGIN_TEST(what_is_missing_is_warned_of_once),
        LOGIN_TEST(a_refusal_ends_the_login_and_says_why),
        LOGIN_TEST(a_server_that_repeats_the_password_is_not_quoted),
        LOGIN_TEST(no_answer_to_the_login_brings_the_password_into_the_log),
        LOGIN_TEST(a_long_refusal_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
