/* The first commands on a connection, and the server's replies. */
#include "logins.h"

#include "redis/connect/conn_id.h"
#include "redis/server/command.h"
#include "support/alloc.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

static char path[] = "/s", name[] = LOGIN_NAME;

static void begins_with(const char *bytes)
{
    struct relock_buffer buffer = {0};

    relock_login_begin(&login, &server, &buffer);
    assert_int_equal(buffer.len, strlen(bytes));
    assert_memory_equal(buffer.data, bytes, buffer.len);
    relock_buffer_deinit(&buffer);
}

/* ---- what is said -------------------------------------------------------------------------- */

#define ASKS_ROLE "*1\r\n$4\r\nROLE\r\n"
#define ASKS_HELLO "*1\r\n$5\r\nHELLO\r\n"
#define ASKS_INFO "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n"

static void a_login_is_sent_in_one_write(void **state)
{
    (void)state;

    begins_with("*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$6\r\nhidden\r\n" ASKS_HELLO
                "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$7\r\nshop:id\r\n"
                "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n" ASKS_INFO);
}

static void a_login_contains_no_unneeded_command(void **state)
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

/* ---- what is answered ---------------------------------------------------------------------- */

static void a_login_is_over_with_its_last_reply(void **state)
{
    (void)state;

    begins();
    take_more("+OK\r\n", MASTER, "+OK\r\n", "+OK\r\n", RUN, NULL);
    assert_int_equal(take_info(INFO), RELOCK_OK);
    assert_non_null(login.conn_id);

    relock_login_end(&login);
    server.url.password = NULL;
    server.name = NULL;
    server.url.db = 0;
    begins();
    take_more(MASTER, RUN, NULL);
    assert_int_equal(take_info(INFO), RELOCK_OK);
    assert_non_null(login.conn_id);
}

static void the_connection_id_is_the_one_of_the_server(void **state)
{
    static const char bytes[] = "*6\r\n$6\r\nCLIENT\r\n$4\r\nKILL\r\n$2\r\nID\r\n$1\r\n7\r\n"
                                "$4\r\nADDR\r\n$15\r\n127.0.0.1:40312\r\n";
    struct relock_buffer buffer = {0};

    (void)state;

    begins_plainly();
    take_more(RUN, NULL);
    assert_int_equal(take_info(INFO), RELOCK_OK);
    relock_conn_id_kill(login.conn_id, NULL, &buffer);
    assert_int_equal(buffer.len, strlen(bytes));
    assert_memory_equal(buffer.data, bytes, buffer.len);
    relock_buffer_deinit(&buffer);
}

/* Otherwise commands sent over this connection could not be killed. */
static void without_memory_for_its_name_a_connection_fails(void **state)
{
    struct relock_buffer nothing = {0};
    redisReply info = {.type = REDIS_REPLY_STRING, .str = (char[]){INFO}, .len = sizeof(INFO) - 1};
    int r;

    (void)state;
    if (!alloc_is_ours())
        skip();
    begins_plainly();
    take_more(RUN, NULL);
    alloc_fail(ALLOC_MINE, 1, 1);
    r = relock_login_take(&login, &info, &nothing);
    assert_int_equal(alloc_stop(), 1);
    assert_int_equal(r, RELOCK_E_NOMEM);
    assert_string_equal(login.why, "h:6379: out of memory for a connection");
}

static void an_address_may_end_the_info(void **state)
{
    static const char kills[] = "$10\r\n[::1]:4031\r\n";
    struct relock_buffer buffer = {0};

    (void)state;

    begins_plainly();
    take_more(RUN, NULL);
    assert_int_equal(take_info("id=18446744073709551615 addr=[::1]:4031\n"), RELOCK_OK);
    relock_conn_id_kill(login.conn_id, NULL, &buffer);
    assert_true(buffer.len > strlen(kills));
    assert_memory_equal(buffer.data + buffer.len - strlen(kills), kills, strlen(kills));
    relock_buffer_deinit(&buffer);
}

static void a_server_without_client_info_is_accepted(void **state)
{
    static const char *const replies[] = {
        "-ERR Unknown subcommand or wrong number of arguments for 'INFO'\r\n",
        "-NOPERM this user has no permissions to run the 'client|info' command\r\n",
        "-ERR unsupported command 'CLIENT'\r\n",
        "-ERR command is not allowed\r\n",
        "-invalid request\r\n",
        "$4\r\nid=7\r\n",
        "$9\r\nname= a=b\r\n",
        ":7\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
    };

    (void)state;

    server = logins_plain_server();
    for (size_t i = 0; i < COUNT(replies); i++) {
        begins();
        take_more(MASTER, RUN, NULL);
        assert_int_equal(take(replies[i]), RELOCK_OK);
        assert_null(login.conn_id);
    }
}

static void a_server_without_a_run_id_is_accepted(void **state)
{
    static const char *const replies[] = {
        "-NOPERM this user has no permissions to run the 'info' command\r\n",
        "-ERR unknown command 'INFO'\r\n",
        "-ERR not supported by this proxy\r\n",
        "$10\r\n# Server\r\n\r\n",
        "$50\r\n\nrun_id:12345678901234567890123456789012345678901x\r\n",
        "$-1\r\n",
        "*0\r\n",
    };

    (void)state;

    server = logins_plain_server();
    for (size_t i = 0; i < COUNT(replies); i++) {
        begins();
        take_more(MASTER, replies[i], NULL);
        assert_string_equal(login.run, "");
        assert_int_equal(take_info(INFO), RELOCK_OK);
        assert_non_null(login.conn_id);
        relock_login_end(&login);
    }
    begins();
    take_more(MASTER, RUN, NULL);
    assert_string_equal(login.run, "1");
}

static void a_connection_without_its_name_is_accepted(void **state)
{
    (void)state;

    begins();
    take_more("+OK\r\n", MASTER, "-NOPERM no permissions to run 'client|setname'\r\n", "+OK\r\n",
              RUN, NULL);
    assert_int_equal(take_info(INFO), RELOCK_OK);
}

static void a_refused_connection_name_is_left_out(void **state)
{
    (void)state;

    begins();
    take_more("+OK\r\n", MASTER, "-ERR not supported by this proxy\r\n", "+OK\r\n", RUN, NULL);
    assert_int_equal(take_info(INFO), RELOCK_OK);
}

/* ---- what the server is -------------------------------------------------------------------- */

static int says_hello(const char *hello)
{
    server = logins_plain_server();
    begins();
    return take(hello);
}

static void a_sentinel_is_not_supported(void **state)
{
    (void)state;

    assert_int_equal(says_hello("*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n"), RELOCK_E_UNSUPPORTED);
    assert_memory_equal(login.why, "h:6379: this is a Sentinel", 26);
    assert_non_null(strstr(login.why, "the address of the master"));
    assert_non_null(strstr(login.why, "redis+sentinel://"));
}

static int says_hello_as_sentinel(const char *hello)
{
    server = logins_plain_server();
    server.is_sentinel = true;
    begins();
    return take(hello);
}

static void only_a_sentinel_is_accepted_as_a_sentinel(void **state)
{
    (void)state;

    assert_int_equal(says_hello_as_sentinel("*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n"), RELOCK_OK);
    assert_null(login.conn_id);
    assert_int_equal(says_hello_as_sentinel(HELLO("$10\r\nstandalone\r\n", "$6\r\nmaster\r\n")),
                     RELOCK_E_UNSUPPORTED);
    assert_non_null(strstr(login.why, "h:6379: this is no Sentinel"));
    assert_int_equal(says_hello_as_sentinel(HELLO("$7\r\ncluster\r\n", "$6\r\nmaster\r\n")),
                     RELOCK_E_UNSUPPORTED);
}

/* HELLO is newer than Sentinel. */
static void a_sentinel_that_does_not_know_hello_is_accepted(void **state)
{
    (void)state;

    assert_int_equal(says_hello_as_sentinel("-ERR unknown command `HELLO`\r\n"), RELOCK_AGAIN);
    assert_string_equal(asks(), ASKS_ROLE);
    assert_int_equal(take("*1\r\n$8\r\nsentinel\r\n"), RELOCK_OK);
    assert_int_equal(says_hello_as_sentinel("-ERR unknown command `HELLO`\r\n"), RELOCK_AGAIN);
    assert_int_equal(take("-ERR unknown command `ROLE`\r\n"), RELOCK_OK);
}

static void a_server_without_hello_is_no_sentinel(void **state)
{
    (void)state;

    assert_int_equal(says_hello_as_sentinel("-ERR unknown command `HELLO`\r\n"), RELOCK_AGAIN);
    assert_int_equal(take("*1\r\n$6\r\nmaster\r\n"), RELOCK_E_UNSUPPORTED);
    assert_non_null(strstr(login.why, "h:6379: this is no Sentinel"));
}

static void a_cluster_node_of_any_role_is_not_supported(void **state)
{
    (void)state;

    assert_int_equal(says_hello(HELLO("$7\r\ncluster\r\n", "$6\r\nmaster\r\n")),
                     RELOCK_E_UNSUPPORTED);
    assert_non_null(strstr(login.why, "h:6379: this is a node of a cluster"));
    assert_int_equal(says_hello(HELLO("$7\r\ncluster\r\n", "$7\r\nreplica\r\n")),
                     RELOCK_E_UNSUPPORTED);
}

static void a_replica_has_its_own_result(void **state)
{
    (void)state;

    assert_int_equal(says_hello(HELLO("$10\r\nstandalone\r\n", "$7\r\nreplica\r\n")),
                     RELOCK_REPLICA);
    assert_non_null(strstr(login.why, "h:6379: this is a replica"));
    assert_non_null(strstr(login.why, "its master"));
}

/* ---- without HELLO ------------------------------------------------------------------------- */

#define ASKS_REPLICATION "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n"
#define REFUSED "-ERR this proxy does not do that\r\n"

/* The server answers HELLO so, and then INFO. Returns what it is asked then. */
static const char *tells_no_role(const char *hello, const char *info)
{
    assert_int_equal(says_hello(hello), RELOCK_AGAIN);
    assert_string_equal(asks(), "");
    take_more(info, REFUSED, NULL);
    return asks();
}

static void the_role_comes_from_info_if_hello_does_not_tell_it(void **state)
{
    static const char *const hellos[] = {
        "-ERR unknown command `HELLO`, with args beginning with: \r\n",
        "-ERR wrong number of arguments for 'hello' command\r\n",
        "-NOPERM this user has no permissions to run the 'hello' command\r\n",
        "-ERR unsupported command 'HELLO'\r\n",
        "-ERR command is not allowed\r\n",
        "-invalid request\r\n",
        "+OK\r\n",
        "*0\r\n",
        "*1\r\n$4\r\nmode\r\n",
        "*3\r\n$4\r\nmode\r\n*1\r\n$8\r\nsentinel\r\n$4\r\nrole\r\n",
        "*2\r\n$7\r\nmodules\r\n*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n",
        "*2\r\n$8\r\nsentinel\r\n$4\r\nmode\r\n",
    };

    (void)state;

    for (size_t i = 0; i < COUNT(hellos); i++) {
        assert_string_equal(tells_no_role(hellos[i], RUN), ASKS_REPLICATION);
        assert_int_equal(take_info("# Replication\r\nrole:master\r\n"), RELOCK_OK);
        assert_string_equal(tells_no_role(hellos[i], RUN), ASKS_REPLICATION);
        assert_int_equal(take_info("# Replication\r\nrole:slave\r\n"), RELOCK_REPLICA);
        assert_non_null(strstr(login.why, "h:6379: this is a replica"));
    }
    assert_int_equal(log_count(lines, "HELLO: "), 1);
    assert_int_equal(log_count(lines, "the role of the server comes from INFO or ROLE"), 1);
}

static void the_role_comes_from_role_if_info_is_missing_too(void **state)
{
    (void)state;

    assert_string_equal(tells_no_role(REFUSED, REFUSED), ASKS_ROLE);
    assert_int_equal(take("*1\r\n$6\r\nmaster\r\n"), RELOCK_OK);
    (void)tells_no_role(REFUSED, REFUSED);
    assert_int_equal(take("*1\r\n$5\r\nslave\r\n"), RELOCK_REPLICA);
    (void)tells_no_role(REFUSED, REFUSED);
    assert_int_equal(take("*1\r\n$8\r\nsentinel\r\n"), RELOCK_E_UNSUPPORTED);
    assert_memory_equal(login.why, "h:6379: this is a Sentinel", 26);
}

static void a_sentinel_without_hello_is_not_supported(void **state)
{
    static const char *const infos[] = {
        "$31\r\n# Server\r\nredis_mode:sentinel\r\n\r\n",
        "$32\r\n# Server\r\nserver_mode:sentinel\r\n\r\n",
    };

    (void)state;

    for (size_t i = 0; i < COUNT(infos); i++) {
        (void)tells_no_role(REFUSED, infos[i]);
        assert_int_equal(take_info("# Replication\r\nrole:master\r\n"), RELOCK_E_UNSUPPORTED);
        assert_memory_equal(login.why, "h:6379: this is a Sentinel", 26);
    }
}

/* Its INFO is that of a node behind it. The proxy itself follows redirections. */
static void a_proxy_in_front_of_a_cluster_is_accepted(void **state)
{
    (void)state;

    (void)tells_no_role(REFUSED, "$30\r\n# Server\r\nredis_mode:cluster\r\n\r\n");
    assert_int_equal(take_info("# Replication\r\nrole:master\r\n"), RELOCK_OK);
}

static void a_server_that_tells_no_role_at_all_is_taken_for_a_master(void **state)
{
    (void)state;

    for (int i = 0; i < 2; i++) {
        (void)tells_no_role(REFUSED, REFUSED);
        assert_int_equal(take(REFUSED), RELOCK_OK);
    }
    assert_int_equal(log_count(lines, "INFO and ROLE: "), 1);
}

static void a_server_that_refuses_its_role_for_now_is_asked_again(void **state)
{
    (void)state;

    (void)tells_no_role(REFUSED, RUN);
    assert_int_equal(take("-LOADING Redis is loading the dataset in memory\r\n"), RELOCK_E_CONN);
    (void)tells_no_role(REFUSED, RUN);
    assert_int_equal(take("-NOAUTH Authentication required.\r\n"), RELOCK_E_AUTH);
}

/* ---- the version --------------------------------------------------------------------------- */

static int says_version(const char *version)
{
    char bytes[128];

    snprintf(bytes, sizeof(bytes), "# Server\r\nredis_version:%s\r\nrun_id:1\r\n", version);
    begins_plainly();
    return take_info(bytes);
}

static void a_version_that_is_too_old_is_not_supported(void **state)
{
    static const char *const versions[] = {"2.8.24", "5.0.14", "6.0.16", "6.1.241", "6"};

    (void)state;

    for (size_t i = 0; i < COUNT(versions); i++)
        assert_int_equal(says_version(versions[i]), RELOCK_E_UNSUPPORTED);
    says_version("5.0.14");
    assert_string_equal(login.why,
                        "h:6379: this is Redis 5.0.14, which is too old: use 6.2 or newer");
}

static void other_versions_are_accepted(void **state)
{
    static const char *const versions[] = {"6.2",   "6.2.0", "6.10.1",      "7.0.15",
                                           "7.2.4", "10.0",  "255.255.255", "0.0.0",
                                           "",      "cloud", "v2"};

    (void)state;

    for (size_t i = 0; i < COUNT(versions); i++) {
        assert_int_equal(says_version(versions[i]), RELOCK_AGAIN);
        assert_string_equal(login.run, "1");
    }
    assert_int_equal(log_count(lines, ""), 0);
}

/* ---- what locks do without ----------------------------------------------------------------- */

static void a_missing_right_is_logged_once(void **state)
{
    (void)state;

    for (int i = 0; i < 3; i++) {
        server = logins_plain_server();
        server.name = name;
        server.url.path = path;
        begins();
        take_more(MASTER, "-NOPERM no permissions to run 'client|setname'\r\n",
                  "-NOPERM no permissions to run 'info'\r\n", NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOGIN_TEST(a_login_is_sent_in_one_write),
        LOGIN_TEST(a_login_contains_no_unneeded_command),
        LOGIN_TEST(a_login_is_over_with_its_last_reply),
        LOGIN_TEST(the_connection_id_is_the_one_of_the_server),
        LOGIN_TEST(without_memory_for_its_name_a_connection_fails),
        LOGIN_TEST(an_address_may_end_the_info),
        LOGIN_TEST(a_server_without_client_info_is_accepted),
        LOGIN_TEST(a_server_without_a_run_id_is_accepted),
        LOGIN_TEST(a_connection_without_its_name_is_accepted),
        LOGIN_TEST(a_refused_connection_name_is_left_out),
        LOGIN_TEST(a_sentinel_is_not_supported),
        LOGIN_TEST(only_a_sentinel_is_accepted_as_a_sentinel),
        LOGIN_TEST(a_sentinel_that_does_not_know_hello_is_accepted),
        LOGIN_TEST(a_cluster_node_of_any_role_is_not_supported),
        LOGIN_TEST(a_replica_has_its_own_result),
        LOGIN_TEST(a_server_without_hello_is_no_sentinel),
        LOGIN_TEST(the_role_comes_from_info_if_hello_does_not_tell_it),
        LOGIN_TEST(the_role_comes_from_role_if_info_is_missing_too),
        LOGIN_TEST(a_sentinel_without_hello_is_not_supported),
        LOGIN_TEST(a_proxy_in_front_of_a_cluster_is_accepted),
        LOGIN_TEST(a_server_that_tells_no_role_at_all_is_taken_for_a_master),
        LOGIN_TEST(a_server_that_refuses_its_role_for_now_is_asked_again),
        LOGIN_TEST(a_version_that_is_too_old_is_not_supported),
        LOGIN_TEST(other_versions_are_accepted),
        LOGIN_TEST(a_missing_right_is_logged_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
