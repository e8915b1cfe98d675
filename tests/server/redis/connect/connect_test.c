/* How a client reaches its server: urls, databases, names of connections, and servers that are
 * unreachable. */
#include "support/actor.h"
#include "support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int connect_to(struct fixture *f, struct relock_options *options)
{
    struct relock_options all = fixture_options(f, options);
    struct relock_client *client = NULL;
    int r = relock_client_new(&all, &client);

    if (r == RELOCK_OK)
        relock_client_free(client);
    else
        assert_null(client);
    return r;
}

static int connect_url(struct fixture *f, const char *url)
{
    return connect_to(f, &(struct relock_options){.url = url});
}

static void an_impossible_url_is_refused_and_logged(void **state)
{
    static const char *const urls[] = {
        "",
        "127.0.0.1",
        "http://127.0.0.1:6379",
        "redis:/127.0.0.1",
        "redis://",
        "redis://:6379",
        "redis://127.0.0.1:port",
        "redis://127.0.0.1:0",
        "redis://127.0.0.1:65536",
        "redis://127.0.0.1:6379/database",
        "redis://127.0.0.1:6379/-1",
        "redis://127.0.0.1:6379/99999999999999999999",
        "redis://[::1",
        "redis://user%4:password@127.0.0.1",
        "redis://user%zz:password@127.0.0.1",
        "unix://",
        "unix:///path?db=",
        "unix:///path?db=x",
        "unix:///path?database=1",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        log_clear(f->log);
        print_message("%s\n", urls[i]);
        assert_result(connect_url(f, urls[i]), RELOCK_E_INVALID);
        assert_true(log_count_grave(f->log, RELOCK_LOG_ERROR) > 0);
    }
}

static void a_socket_path_that_is_too_long_is_invalid(void **state)
{
    struct fixture *f = *state;
    char url[256] = "unix:///";

    memset(url + 8, 'x', 200);
    assert_result(connect_url(f, url), RELOCK_E_INVALID);
}

static void impossible_options_are_refused_and_logged(void **state)
{
    struct relock_options bad[] = {
        {.client_name = "with blank"},         {.client_name = "with\nline"},
        {.flags = RELOCK_DEFER_RELEASES << 1}, {.flags = 0x80000000u},
        {.watchdog_timeout_ms = UINT64_MAX},   {.connections = 1u << 31},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        log_clear(f->log);
        assert_result(connect_to(f, &bad[i]), RELOCK_E_INVALID);
        assert_true(log_count_grave(f->log, RELOCK_LOG_ERROR) > 0);
    }
}

static void a_server_is_reached_by_address_name_and_socket(void **state)
{
    struct fixture *f = *state;
    char url[128];

    assert_result(connect_url(f, f->server->unix_url), RELOCK_OK);
    assert_result(connect_url(f, f->server->tcp_url), RELOCK_OK);
    snprintf(url, sizeof(url), "redis://localhost:%d", f->server->port);
    assert_result(connect_url(f, url), RELOCK_OK);
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d/", f->server->port);
    assert_result(connect_url(f, url), RELOCK_OK);
}

static void connecting_to_no_server_returns_conn(void **state)
{
    struct fixture *f = *state;

    /* A resolver whose servers do not answer has its thread for no longer than that. */
    setenv("RES_OPTIONS", "timeout:1 attempts:1", 0);
    assert_result(connect_url(f, "unix:///nonexistent/socket"), RELOCK_E_CONN);
    assert_result(connect_url(f, "redis://127.0.0.1:1"), RELOCK_E_CONN);
    assert_result(connect_url(f, "redis://no-such-host.invalid"), RELOCK_E_CONN);
    assert_true(log_count_grave(f->log, RELOCK_LOG_ERROR) > 0);
}

/* Within the time limit for connecting. The other limit is much longer. */
static void a_server_that_does_not_answer_returns_conn_in_time(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.connect_timeout_ms = 200,
                                     .command_timeout_ms = slow_ms(3 * SOON_MS)};
    uint64_t began_ms;

    server_pause(f->server);
    began_ms = now_ms();
    assert_result(connect_to(f, &options), RELOCK_E_CONN);
    assert_no_later(now_ms() - began_ms, slow_ms(SOON_MS));
    server_resume(f->server);
}

#define MAX_QUEUED 64

/* Fills the queue of connections that the server has not accepted, until it is full. */
static size_t fill_queue(const struct server *server, int queued[MAX_QUEUED])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = 0;
    int r = 0;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", server->socket);
    while (r == 0 && n < MAX_QUEUED) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        r = connect(fd, (struct sockaddr *)&address, sizeof(address));
        queued[n++] = fd;
    }
    assert_int_equal(r, -1);
    return n;
}

static int connect_and_free(void *options)
{
    struct relock_client *client = NULL;
    int r = relock_client_new(options, &client);

    relock_client_free(client);
    return r;
}

static void a_connect_waits_for_a_server_whose_queue_is_full(void **state)
{
    struct fixture *f = *state;
    struct server *crowded = server_start(&(struct server_options){.args = {"--tcp-backlog", "1"}});
    struct relock_options options =
        fixture_options(f, &(struct relock_options){.url = crowded->unix_url});
    struct actor *caller = actor_start();
    int queued[MAX_QUEUED];
    size_t n;

    server_pause(crowded);
    n = fill_queue(crowded, queued);
    actor_begin(caller, connect_and_free, &options);
    let_pass(100);
    assert_true(actor_is_busy(caller));
    server_resume(crowded);
    assert_result(actor_result(caller), RELOCK_OK);
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_WARNING), 0);
    while (n > 0)
        close(queued[--n]);
    server_stop(crowded);
}

struct attempt {
    struct relock_lock *lock;
};

static bool is_held(void *arg)
{
    return relock_trylock(((struct attempt *)arg)->lock) == RELOCK_OK;
}

static void a_lazy_client_is_made_while_its_server_is_unreachable(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.flags = RELOCK_LAZY, .command_timeout_ms = 300};
    struct relock_client *client;
    struct relock_lock *lock;
    int r;

    server_kill(f->server);
    client = fixture_client(f, &options);
    lock = fixture_lock(f, client, "orders");
    assert_result(relock_trylock(lock), RELOCK_E_CONN);
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);

    server_restart(f->server);
    assert_true(wait_until(is_held, &(struct attempt){lock}, SOON_MS));
    r = relock_unlock(lock); /* with so little time */
    assert_true(r == RELOCK_OK || r == RELOCK_E_CONN);
}

static void a_lazy_client_with_a_bad_url_is_still_invalid(void **state)
{
    struct fixture *f = *state;

    assert_result(connect_to(f, &(struct relock_options){.url = "http://x", .flags = RELOCK_LAZY}),
                  RELOCK_E_INVALID);
}

static void a_database_is_selected(void **state)
{
    struct fixture *f = *state;
    char url[160];

    for (int way = 0; way < 2; way++) {
        struct relock_lock *lock;

        if (way == 0)
            snprintf(url, sizeof(url), "%s/3", f->server->tcp_url);
        else
            snprintf(url, sizeof(url), "%s?db=3", f->server->unix_url);
        lock = fixture_lock(f, fixture_client(f, &(struct relock_options){.url = url}), "orders");
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_int_equal(probe_n_keys(f->probe), 0);
        probe_int(f->probe, "SELECT 3");
        assert_int_equal(probe_only_value(f->probe, "orders"), 1);
        probe_int(f->probe, "SELECT 0");
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

static void a_database_that_is_not_there_is_refused(void **state)
{
    struct fixture *f = *state;
    char url[160];

    snprintf(url, sizeof(url), "%s/9999", f->server->tcp_url);
    assert_result(connect_url(f, url), RELOCK_E_SERVER);
    assert_true(log_wait(f->log, "out of range", SOON_MS));
}

struct naming {
    struct probe *probe;
    char name[128];
};

/* The probe is one more. */
static bool are_all_named(void *arg)
{
    struct naming *naming = arg;
    long long n = probe_n_clients(naming->probe, naming->name);

    return n >= 1 && n == probe_n_clients(naming->probe, "") - 1;
}

static void connections_carry_the_name_of_the_client(void **state)
{
    struct fixture *f = *state;
    struct naming naming = {.probe = f->probe};
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "billing"});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    snprintf(naming.name, sizeof(naming.name), " name=billing:%s ", relock_client_id(client));
    assert_true(wait_until(are_all_named, &naming, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void without_a_name_connections_carry_that_of_the_process(void **state)
{
    struct fixture *f = *state;
    struct naming naming = {.probe = f->probe};
    struct relock_client *client = fixture_client(f, NULL);
    char host[65] = "";

    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    snprintf(naming.name, sizeof(naming.name), " name=relock:%s:%d:%s ", host, (int)getpid(),
             relock_client_id(client));
    assert_true(wait_until(are_all_named, &naming, SOON_MS));
}

static void the_log_names_the_id_of_a_client(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    assert_true(log_wait(f->log, relock_client_id(client), SOON_MS));
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_WARNING), 0);
}

static void strings_of_the_options_are_copied(void **state)
{
    struct fixture *f = *state;
    char url[160], name[] = "billing";
    struct relock_client *client;
    struct relock_lock *lock;

    snprintf(url, sizeof(url), "%s", f->server->unix_url);
    client = fixture_client(f, &(struct relock_options){.url = url, .client_name = name});
    memset(url, 'x', strlen(url));
    memset(name, 'x', strlen(name));
    probe_int(f->probe, "CLIENT KILL TYPE normal");
    lock = fixture_lock(f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(probe_n_clients(f->probe, " name=billing:") >= 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(an_impossible_url_is_refused_and_logged),
        SERVER_TEST(a_socket_path_that_is_too_long_is_invalid),
        SERVER_TEST(impossible_options_are_refused_and_logged),
        SERVER_TEST(a_server_is_reached_by_address_name_and_socket),
        SERVER_TEST(connecting_to_no_server_returns_conn),
        SERVER_TEST(a_server_that_does_not_answer_returns_conn_in_time),
        SERVER_TEST(a_connect_waits_for_a_server_whose_queue_is_full),
        SERVER_TEST(a_lazy_client_is_made_while_its_server_is_unreachable),
        SERVER_TEST(a_lazy_client_with_a_bad_url_is_still_invalid),
        SERVER_TEST(a_database_is_selected),
        SERVER_TEST(a_database_that_is_not_there_is_refused),
        SERVER_TEST(connections_carry_the_name_of_the_client),
        SERVER_TEST(without_a_name_connections_carry_that_of_the_process),
        SERVER_TEST(the_log_names_the_id_of_a_client),
        SERVER_TEST(strings_of_the_options_are_copied),
    };

    return cmocka_run_group_tests(tests, fixture_start_tcp, fixture_stop);
}
