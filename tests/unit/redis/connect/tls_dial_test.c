/* Handshakes as a part of making a connection: with a server that does not answer, or goes. */
#include "redis/connect/connect.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "redis/server/tls_context.h"
#include "support/child.h"
#include "support/late.h"
#include "support/leaks.h"
#include "support/wait.h"
#include "unit/common/hosts.h"
#include "unit/common/places.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW_MS 1000000
#define TIMEOUT_MS 1000

static char dir[] = "/tmp/relock-tls-dial-XXXXXX";
static char path[64], label[] = "h:6379";
static const struct relock_log no_log = {.level = 0};
static struct relock_server server;
static struct relock_dial dial;
static struct leaks before;
static int listener, accepted;

static struct child *child_at_end; /* forked when TLS ended */

struct relock_tls *__real_relock_tls_free(struct relock_tls *tls);
struct relock_tls *__wrap_relock_tls_free(struct relock_tls *tls);

static int close_all(struct child *parent, void *arg)
{
    const int *fd = arg;

    (void)parent;
    relock_descriptor_close_all(server.scope);
    child_must(fcntl(*fd, F_GETFD) < 0);
    return EXIT_SUCCESS;
}

struct relock_tls *__wrap_relock_tls_free(struct relock_tls *tls)
{
    if (tls && server.scope)
        child_at_end = child_start(close_all, &dial.fd);
    return __real_relock_tls_free(tls);
}

static const char *addresses[HOSTS_MAX]; /* of every host */

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    (void)host;
    (void)hints;
    return hosts_find(addresses, port, found);
}

static void listen_at_path(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
}

static int begin(void **state)
{
    static const struct relock_options options = {.flags = RELOCK_TLS_INSECURE};

    (void)state;
    before = leaks_now();
    server = (struct relock_server){
        .url = {.path = path}, .label = label, .log = &no_log, .connect_timeout_ms = TIMEOUT_MS};
    assert_int_equal(relock_tls_context_new(&options, "h", &no_log, &server.tls), RELOCK_OK);
    relock_dial_init(&dial, &server);
    listen_at_path();
    accepted = -1;
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_dial_end(&dial);
    server.tls = relock_tls_context_free(server.tls);
    relock_resolver_free(server.resolver);
    places_end();
    if (accepted >= 0)
        close(accepted);
    close(listener);
    unlink(path);
    return leaks_none_since(&before) ? 0 : -1;
}

/* The server has received the beginning of a handshake, and nothing else. */
static void begins_with_a_handshake(void)
{
    struct pollfd pollfd;
    unsigned char type = 0;

    accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    pollfd = (struct pollfd){.fd = accepted, .events = POLLIN};
    assert_int_equal(poll(&pollfd, 1, SOON_MS), 1);
    assert_int_equal(recv(accepted, &type, 1, MSG_PEEK), 1);
    assert_int_equal(type, 22);
}

/* To the state in which it waits for the server's answer. */
static void dial_until_it_waits(void)
{
    struct relock_socket got;

    for (int i = 0; i < 2; i++)
        assert_int_equal(relock_dial_step(&dial, NOW_MS, &got), RELOCK_AGAIN);
    assert_int_equal(dial.state, RELOCK_DIAL_SECURING);
    assert_false(relock_dial_wants_to_write(&dial));
    begins_with_a_handshake();
}

static void nothing_is_sent_before_the_handshake(void **state)
{
    (void)state;
    dial_until_it_waits();
}

/* The I/O thread, which renews the leases, makes this step. */
static void a_step_does_not_wait_for_the_server(void **state)
{
    uint64_t began_ms = now_ms();
    struct relock_socket got;

    (void)state;

    dial_until_it_waits();
    for (int i = 0; i < 3; i++)
        assert_int_equal(relock_dial_step(&dial, NOW_MS + 1, &got), RELOCK_AGAIN);
    assert_no_later(now_ms() - began_ms, SOON_MS);
}

static void a_handshake_ends_with_the_time_for_connecting(void **state)
{
    struct relock_socket got;

    (void)state;

    dial_until_it_waits();
    assert_true(dial.deadline_ms == NOW_MS + TIMEOUT_MS);
    assert_int_equal(relock_dial_step(&dial, dial.deadline_ms - 1, &got), RELOCK_AGAIN);
    assert_int_equal(relock_dial_step(&dial, NOW_MS + TIMEOUT_MS, &got), RELOCK_E_CONN);
    assert_non_null(strstr(dial.why, "h:6379: no answer to the TLS handshake"));
    assert_int_equal(dial.fd, -1);
}

static void a_server_that_hangs_up_during_the_handshake_is_a_failure(void **state)
{
    struct relock_socket got;

    (void)state;

    dial_until_it_waits();
    assert_int_equal(shutdown(accepted, SHUT_WR), 0);
    assert_int_equal(relock_dial_step(&dial, NOW_MS, &got), RELOCK_E_CONN);
    assert_non_null(strstr(dial.why, "closed the connection during the TLS handshake"));
}

static void a_dial_that_ends_in_the_handshake_can_begin_again(void **state)
{
    (void)state;

    dial_until_it_waits();
    relock_dial_end(&dial);
    close(accepted);
    dial_until_it_waits();
}

static void until_it_secures(uint64_t at_ms)
{
    struct pollfd pollfd = {.fd = dial.fd, .events = POLLIN};
    struct relock_socket got;

    assert_int_equal(dial.state, RELOCK_DIAL_CONNECTING);
    assert_int_equal(poll(&pollfd, 1, SOON_MS), 1);
    assert_int_equal(relock_dial_step(&dial, at_ms, &got), RELOCK_AGAIN);
    assert_int_equal(dial.state, RELOCK_DIAL_SECURING);
}

static void an_address_without_a_handshake_leaves_time_for_the_others(void **state)
{
    int first = places_listen(), second = places_listen();
    struct relock_socket got;

    (void)state;

    addresses[0] = places_text(first);
    addresses[1] = places_text(second);
    server.url = (struct relock_url){.host = label, .port = 1};
    server.resolver = relock_resolver_new(label, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(relock_dial_step(&dial, NOW_MS, &got), RELOCK_AGAIN);
    until_it_secures(NOW_MS);
    assert_true(places_is_at(first, dial.fd));
    assert_true(dial.deadline_ms == NOW_MS + TIMEOUT_MS / 2);
    assert_int_equal(relock_dial_step(&dial, dial.deadline_ms, &got), RELOCK_AGAIN);
    until_it_secures(NOW_MS + TIMEOUT_MS / 2);
    assert_true(places_is_at(second, dial.fd));
    assert_true(dial.deadline_ms == NOW_MS + TIMEOUT_MS);
    assert_int_equal(relock_dial_step(&dial, dial.deadline_ms, &got), RELOCK_E_CONN);
    assert_non_null(strstr(dial.why, "no answer to the TLS handshake"));
}

/* The end of TLS may wait for a fork. */
static void a_fork_at_the_end_of_tls_leaves_no_descriptor_behind(void **state)
{
    (void)state;

    server.scope = &server;
    relock_dial_init(&dial, &server);
    dial_until_it_waits();
    relock_dial_end(&dial);
    assert_int_equal(child_wait(child_at_end, SOON_MS), EXIT_SUCCESS);
}

#define DIAL_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIAL_TEST(nothing_is_sent_before_the_handshake),
        DIAL_TEST(a_step_does_not_wait_for_the_server),
        DIAL_TEST(a_handshake_ends_with_the_time_for_connecting),
        DIAL_TEST(a_server_that_hangs_up_during_the_handshake_is_a_failure),
        DIAL_TEST(a_dial_that_ends_in_the_handshake_can_begin_again),
        DIAL_TEST(an_address_without_a_handshake_leaves_time_for_the_others),
        DIAL_TEST(a_fork_at_the_end_of_tls_leaves_no_descriptor_behind),
    };
    int r;

    if (!mkdtemp(dir))
        return EXIT_FAILURE;
    snprintf(path, sizeof(path), "%s/socket", dir);
    r = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(dir);
    return r;
}
