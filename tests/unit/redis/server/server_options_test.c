/* The server's address and our credentials, from url and options. */
#include "redis/server/server.h"

#include "support/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define ID "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10"

static struct log *lines;
static struct relock_log sink;

static int make_log(void **state)
{
    (void)state;
    lines = log_new();
    sink = (struct relock_log){.level = RELOCK_LOG_DEBUG, .sink = log_write, .arg = lines};
    return 0;
}

static int drop_log(void **state)
{
    (void)state;
    lines = log_free(lines);
    return 0;
}

static int init(struct relock_server *server, const struct relock_options *options)
{
    return relock_server_init(server, options, ID, &sink);
}

static void a_server_matches_its_url(void **state)
{
    struct relock_server server;

    (void)state;

    assert_int_equal(init(&server, &(struct relock_options){.url = "redis://u:pw@h:7000/3"}),
                     RELOCK_OK);
    assert_string_equal(server.url.host, "h");
    assert_int_equal(server.url.port, 7000);
    assert_string_equal(server.url.user, "u");
    assert_string_equal(server.url.password, "pw");
    assert_int_equal(server.url.db, 3);
    assert_null(server.name);
    assert_ptr_equal(server.log, &sink);
    assert_int_equal(log_count(lines, ""), 0);
    relock_server_deinit(&server);
}

static void user_and_password_of_the_options_override_those_of_the_url(void **state)
{
    static const struct {
        const char *url, *user, *password;  /* given */
        const char *as_user, *and_password; /* expected result */
    } cases[] = {
        {"redis://h", "me", "mine", "me", "mine"},
        {"redis://u:pw@h", "me", "mine", "me", "mine"},
        {"redis://u:pw@h", "me", NULL, "me", "pw"},
        {"redis://u:pw@h", NULL, "mine", "u", "mine"},
        {"redis://:pw@h", "me", NULL, "me", "pw"},
        {"redis://h", NULL, "mine", NULL, "mine"},
        {"unix:///s", "me", "mine", "me", "mine"},
        {"redis://h", "m%41", "%zz@:/", "m%41", "%zz@:/"}, /* percent signs are literal here */
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct relock_options options = {
            .url = cases[i].url, .user = cases[i].user, .password = cases[i].password};
        struct relock_server server;

        assert_int_equal(init(&server, &options), RELOCK_OK);
        if (cases[i].as_user)
            assert_string_equal(server.url.user, cases[i].as_user);
        else
            assert_null(server.url.user);
        assert_string_equal(server.url.password, cases[i].and_password);
        relock_server_deinit(&server);
    }
}

static void a_user_without_a_password_is_refused(void **state)
{
    struct relock_options options = {.url = "redis://h", .user = "hidden"};
    struct relock_server server;

    (void)state;

    assert_int_equal(init(&server, &options), RELOCK_E_INVALID);
    assert_int_equal(log_count_grave(lines, RELOCK_LOG_ERROR), 1);
    assert_int_equal(log_count(lines, "password"), 1);
    assert_null(server.url.host);
    assert_null(server.url.user);
    assert_int_equal(log_count(lines, "hidden"), 0);
}

static void a_login_for_sentinels_needs_sentinels_and_a_password(void **state)
{
    static const struct relock_options options[] = {
        {.url = "redis://h", .sentinel_user = "hidden", .sentinel_password = "hidden"},
        {.url = "unix:///s", .sentinel_password = "hidden"},
        {.url = "redis+sentinel://s/m", .sentinel_user = "hidden"},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(options); i++) {
        struct relock_server server;

        log_clear(lines);
        assert_int_equal(init(&server, &options[i]), RELOCK_E_INVALID);
        assert_int_equal(log_count_grave(lines, RELOCK_LOG_ERROR), 1);
        assert_int_equal(log_count(lines, "sentinels"), 1);
        assert_int_equal(log_count(lines, "hidden"), 0);
    }
}

/* Their address may change, so no address of ours is in their certificates. */
static void masters_that_sentinels_name_need_a_name_in_their_certificates(void **state)
{
    struct relock_options options = {.url = "rediss+sentinel://s/m"};
    struct relock_server server;

    (void)state;

    assert_int_equal(init(&server, &options), RELOCK_E_INVALID);
    assert_int_equal(log_count(lines, "tls_server_name"), 1);
}

static void the_label_is_the_address_without_user_and_password(void **state)
{
    static const struct {
        const char *url, *label;
    } cases[] = {
        {"redis://hidden:hidden@h", "h:6379"},
        {"redis://:hidden@127.0.0.1:7000/3", "127.0.0.1:7000"},
        {"redis://hidden:hidden@[::1]:7000", "[::1]:7000"},
        {"unix:///run/redis.sock?db=3", "unix:///run/redis.sock"},
        {"redis+sentinel://hidden:hidden@s1,s2:2/shop/3", "s1:26379/shop"},
        {"redis+sentinel://:hidden@[::1]:7,s2/shop", "[::1]:7/shop"},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct relock_options options = {
            .url = cases[i].url, .user = "hidden", .password = "hidden"};
        struct relock_server server;

        assert_int_equal(init(&server, &options), RELOCK_OK);
        assert_string_equal(server.label, cases[i].label);
        relock_server_deinit(&server);
    }
}

static void connections_have_the_name_that_the_program_sets(void **state)
{
    struct relock_options options = {.url = "redis://h", .client_name = "shop"};
    struct relock_server server;

    (void)state;

    assert_int_equal(init(&server, &options), RELOCK_OK);
    assert_string_equal(server.name, "shop:" ID);
    relock_server_deinit(&server);
}

static void a_server_takes_its_times_from_the_options(void **state)
{
    struct relock_options options = {
        .url = "redis://h", .connect_timeout_ms = 7, .command_timeout_ms = 11};
    struct relock_server server;

    (void)state;

    assert_int_equal(init(&server, &options), RELOCK_OK);
    assert_int_equal(server.connect_timeout_ms, 7);
    assert_int_equal(server.command_timeout_ms, 11);
    relock_server_deinit(&server);
}

static void a_url_that_cannot_be_used_is_logged_without_a_part_of_it(void **state)
{
    static const struct {
        const char *url;
        int result;
    } cases[] = {
        {"hidden://hidden:hidden@hidden", RELOCK_E_INVALID},
        {"redis://hidden:hidden@hidden:hidden", RELOCK_E_INVALID},
        {"unix:///hidden?hidden", RELOCK_E_INVALID},
        {"redis+cluster://hidden:hidden@hidden/hidden", RELOCK_E_INVALID},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct relock_options options = {
            .url = cases[i].url, .user = "hidden", .password = "hidden", .client_name = "shop"};
        struct relock_server server;

        log_clear(lines);
        assert_int_equal(init(&server, &options), cases[i].result);
        assert_int_equal(log_count_grave(lines, RELOCK_LOG_ERROR), 1);
        assert_int_equal(log_count(lines, ""), 1);
        assert_int_equal(log_count(lines, "url"), 1);
        assert_int_equal(log_count(lines, "hidden"), 0);
        /* Nothing is left to free, and freeing again does no harm. */
        assert_null(server.url.host);
        assert_null(server.label);
        assert_null(server.name);
        relock_server_deinit(&server);
    }
}

/* A program that sets such an option expects encryption. */
static void an_option_of_tls_needs_a_url_with_tls(void **state)
{
    static const struct {
        struct relock_options options;
        const char *named;
    } cases[] = {
        {{.url = "redis://h", .tls_ca_file = "f"}, "tls_ca_file is set"},
        {{.url = "redis://h", .tls_cert_file = "f"}, "tls_cert_file is set"},
        {{.url = "redis://h", .tls_key_file = "f"}, "tls_key_file is set"},
        {{.url = "unix:///s", .tls_server_name = "h"}, "tls_server_name is set"},
        {{.url = "unix:///s", .flags = RELOCK_TLS_INSECURE}, "RELOCK_TLS_INSECURE is set"},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct relock_server server;

        log_clear(lines);
        assert_int_equal(init(&server, &cases[i].options), RELOCK_E_INVALID);
        assert_int_equal(log_count_grave(lines, RELOCK_LOG_ERROR), 1);
        assert_int_equal(log_count(lines, "rediss://"), 1);
        assert_int_equal(log_count(lines, cases[i].named), 1);
    }
}

#define LOG_TEST(function) cmocka_unit_test_setup_teardown(function, make_log, drop_log)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(a_server_matches_its_url),
        LOG_TEST(user_and_password_of_the_options_override_those_of_the_url),
        LOG_TEST(a_user_without_a_password_is_refused),
        LOG_TEST(a_login_for_sentinels_needs_sentinels_and_a_password),
        LOG_TEST(masters_that_sentinels_name_need_a_name_in_their_certificates),
        LOG_TEST(the_label_is_the_address_without_user_and_password),
        LOG_TEST(connections_have_the_name_that_the_program_sets),
        LOG_TEST(a_server_takes_its_times_from_the_options),
        LOG_TEST(a_url_that_cannot_be_used_is_logged_without_a_part_of_it),
        LOG_TEST(an_option_of_tls_needs_a_url_with_tls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
