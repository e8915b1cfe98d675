/*
 * Passwords: a login, or parsing its options, may fail in any way, and no log line contains a
 * password. For locks see log_texts_test.c.
 */
#include "faults.h"

#include "lines.h"
#include "support/script_server.h"

#include <stdio.h>
#include <string.h>

#define USER "locker"
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const char *ca_file; /* for clients with TLS */

/* Fails to make a client, and reads its log: on stderr by default, or by a sink. */
static void fails(struct relock_options options, int wanted, const char *words)
{
    for (int has_sink = 0; has_sink < 2; has_sink++) {
        struct relock_client *client = NULL;

        options.connect_timeout_ms = wanted == RELOCK_E_CONN ? short_ms() : slow_ms(SOON_MS);
        options.command_timeout_ms = options.connect_timeout_ms;
        options.tls_ca_file = strncmp(options.url, "rediss:", 7) == 0 ? ca_file : NULL;
        options.on_lost = losses_drop;
        options.on_log = has_sink ? lines_write : NULL;
        options.log_level = has_sink ? RELOCK_LOG_DEBUG : 0;
        lines_begin();
        assert_result(relock_client_new(&options, &client), wanted);
        assert_null(client);
        lines_end(options.url, words, false);
    }
}

static const char *url_of(struct faults *t, const char *login)
{
    const char *all = proxy_url(t->proxy);
    static char url[256];

    snprintf(url, sizeof(url), "%.*s%s@127.0.0.1:%s",
             (int)(strstr(all, "://") + strlen("://") - all), all, login, strrchr(all, ':') + 1);
    return url;
}

static void no_line_about_a_wrong_login_has_a_password(void **state)
{
    struct faults *t = *state;
    const char *url = proxy_url(t->proxy);

    faults_worker(t, "~* &* +@all");
    fails((struct relock_options){.url = url, .user = WORKER, .password = "wr0ng"}, RELOCK_E_AUTH,
          "WRONGPASS");
    fails((struct relock_options){.url = url, .user = "nobody", .password = LINES_SECRET},
          RELOCK_E_AUTH, "WRONGPASS");
    fails((struct relock_options){.url = url_of(t, WORKER ":wr0ng")}, RELOCK_E_AUTH, "WRONGPASS");
    fails((struct relock_options){.url = url_of(t, "nobody:" LINES_SECRET_IN_URL)}, RELOCK_E_AUTH,
          "WRONGPASS");
    fails((struct relock_options){.url = url_of(t, WORKER ":wr0ng"), .flags = RELOCK_LAZY},
          RELOCK_E_AUTH, "WRONGPASS");
    fails((struct relock_options){.url = url, .user = WORKER}, RELOCK_E_INVALID, "no password");
}

/* First the default user has no password, then one that we do not have or did not pass. */
static void no_line_about_the_default_user_has_a_password(void **state)
{
    struct faults *t = *state;
    const char *url = proxy_url(t->proxy);

    fails((struct relock_options){.url = url, .password = LINES_SECRET}, RELOCK_E_AUTH, "AUTH: ");
    assert_int_equal(probe_int(t->f->probe, "CONFIG SET requirepass %s", LINES_SECRET), 0);
    fails((struct relock_options){.url = url}, RELOCK_E_AUTH, "NOAUTH");
    fails((struct relock_options){.url = url, .password = "wr0ng"}, RELOCK_E_AUTH, "WRONGPASS");
    fails((struct relock_options){.url = url_of(t, ":wr0ng")}, RELOCK_E_AUTH, "WRONGPASS");
    assert_int_equal(probe_int(t->f->probe, "CONFIG SET requirepass %s", ""), 0);
}

static void no_line_about_a_missing_server_has_a_password(void **state)
{
    struct faults *t = *state;

    fails((struct relock_options){.url = "unix:///nowhere", .password = LINES_SECRET},
          RELOCK_E_CONN, "unix:///nowhere: ");
    proxy_refuse(t->proxy, true);
    fails((struct relock_options){.url = url_of(t, USER ":" LINES_SECRET_IN_URL)}, RELOCK_E_CONN,
          "127.0.0.1:");
    proxy_refuse(t->proxy, false);
    fails((struct relock_options){.url = "redis://" USER ":" LINES_SECRET_IN_URL
                                         "@no-such-host.invalid"},
          RELOCK_E_CONN, "no-such-host.invalid:6379: ");
}

static void no_line_about_a_silent_server_has_a_password(void **state)
{
    struct faults *t = *state;
    const char *url = proxy_url(t->proxy);

    server_pause(t->f->server);
    fails((struct relock_options){.url = url, .user = USER, .password = LINES_SECRET},
          RELOCK_E_CONN, "127.0.0.1:");
    server_resume(t->f->server);
    proxy_each(t->proxy, PROXY_CUT, "AUTH");
    fails((struct relock_options){.url = url, .user = USER, .password = LINES_SECRET},
          RELOCK_E_CONN, "127.0.0.1:");
    proxy_reset(t->proxy);
}

static void no_line_about_an_invalid_url_has_a_password(void **state)
{
    static const char *const urls[] = {
        "redis://" LINES_SECRET_IN_URL "@host",
        "redis://" USER ":" LINES_SECRET "@host",
        "redis://" USER ":s3cret/x@host",
        "redis://" USER ":s3cret#x@host:1",
        "redis://" USER ":s3cret%4@host",
        "redis://" USER ":s3cret%00@host",
        "redis://" USER ":s3cret@",
        "redis://" USER ":s3cret@host:port",
        "redis://" USER ":s3cret@host:70000/0",
        "redis://" USER ":s3cret@host/s3cret",
        "redis://" USER ":s3cret@host/0?password=s3cret",
        "redis://host?password=s3cret",
        "redis://[s3cret",
        "redis:" USER ":s3cret@host",
        "rediss://" USER ":s3cret@host:port",
        "redis+cluster://" USER ":s3cret@host/s3cret",
        "unix://s3cret@/socket",
        "unix:///socket?password=s3cret",
        "unix:///socket?db=s3cret",
        "http://" USER ":s3cret@host",
        "s3cret",
    };

    (void)state;

    for (size_t i = 0; i < COUNT(urls); i++)
        fails((struct relock_options){.url = urls[i]}, RELOCK_E_INVALID, "invalid url");
}

/* Servers that do not know AUTH repeat the password, and so do proxies that pretend to be one. */
static void no_line_about_a_server_that_echoes_has_a_password(void **state)
{
    static const char *const replies[] = {
        "-ERR unknown command 'AUTH', with args beginning with: 'locker' '" LINES_SECRET "'\r\n",
        "-ERR AUTH " LINES_SECRET " called without any password configured\r\n",
        "-WRONGPASS locker cannot log in with " LINES_SECRET "\r\n",
        "-NOPERM denied: AUTH locker " LINES_SECRET "\r\n",
    };

    (void)state;

    for (size_t i = 0; i < COUNT(replies); i++) {
        struct script_server *server = script_server_start();

        for (int n = 0; n < 2; n++) {
            script_accept(server);
            script_answer_all(server, replies[i]);
        }
        fails((struct relock_options){.url = script_server_url(server),
                                      .user = USER,
                                      .password = LINES_SECRET},
              RELOCK_E_AUTH, ": AUTH: ");
        assert_true(script_played(server));
        script_server_end(server);
    }
}

static int begin_secret_test(void **state)
{
    struct faults *t = *state;

    ca_file = faults_ca_file(t);
    return faults_begin(state);
}

/* Also after a failed test. */
static int end_secret_test(void **state)
{
    struct faults *t = *state;

    lines_reset();
    probe_int(t->f->probe, "CONFIG SET requirepass %s", "");
    return faults_end(state);
}

#define SECRET_TEST(function) \
    cmocka_unit_test_setup_teardown(function, begin_secret_test, end_secret_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SECRET_TEST(no_line_about_a_wrong_login_has_a_password),
        SECRET_TEST(no_line_about_the_default_user_has_a_password),
        SECRET_TEST(no_line_about_a_missing_server_has_a_password),
        SECRET_TEST(no_line_about_a_silent_server_has_a_password),
        SECRET_TEST(no_line_about_an_invalid_url_has_a_password),
        SECRET_TEST(no_line_about_a_server_that_echoes_has_a_password),
    };

    return FAULT_TESTS_RUN_TCP(tests);
}
