/* Making a connection to a host with several addresses, and the options of its socket. */
#include "redis/connect/connect.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "support/child.h"
#include "support/leaks.h"
#include "support/wait.h"
#include "unit/common/hosts.h"
#include "unit/common/places.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static char label[] = "shop.example:6379", name[] = "shop.example";
static const char *addresses[HOSTS_MAX];
static struct relock_server server;
static struct relock_dial dial;
static struct relock_socket got;
static struct leaks before;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    (void)host;
    return hints->ai_flags & AI_NUMERICHOST ? EAI_NONAME : hosts_find(addresses, port, found);
}

static int begin(void **state)
{
    (void)state;
    before = leaks_now();
    memset(addresses, 0, sizeof(addresses));
    server = (struct relock_server){
        .url = {.host = name, .port = 6379},
        .label = label,
        .resolver = relock_resolver_new(name, 6379),
        .connect_timeout_ms = slow_ms(SOON_MS),
        .command_timeout_ms = 3000,
    };
    got.fd = -1;
    relock_dial_init(&dial, &server);
    return server.resolver ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    relock_dial_end(&dial);
    relock_resolver_free(server.resolver);
    if (got.fd >= 0)
        close(got.fd);
    places_end();
    return leaks_none_since(&before) ? 0 : -1;
}

static void wait_for_dial(void)
{
    struct pollfd pollfd = {.fd = dial.fd, .events = POLLIN};

    assert_false(relock_dial_wants_to_write(&dial));
    (void)poll(&pollfd, 1, relock_clock_poll_ms(relock_clock_now_ms(), dial.deadline_ms));
}

static int connect_host(void)
{
    int r = relock_dial_step(&dial, relock_clock_now_ms(), &got);

    for (; r == RELOCK_AGAIN; r = relock_dial_step(&dial, relock_clock_now_ms(), &got))
        wait_for_dial();
    return r;
}

static void an_address_without_an_answer_delays_the_others_for_a_moment(void **state)
{
    int answers = places_listen();
    uint64_t began_ms = relock_clock_now_ms();

    (void)state;

    addresses[0] = places_text(places_hang());
    addresses[1] = places_text(places_hang());
    addresses[2] = places_text(answers);
    assert_int_equal(connect_host(), RELOCK_OK);
    assert_true(places_is_at(answers, got.fd));
    assert_in_range(relock_clock_now_ms() - began_ms, 500, slow_ms(SOON_MS) / 2);
}

static void a_host_is_looked_up_for_each_connection(void **state)
{
    int first = places_listen(), second = places_listen();

    (void)state;

    addresses[0] = places_text(first);
    assert_int_equal(connect_host(), RELOCK_OK);
    assert_true(places_is_at(first, got.fd));
    close(got.fd);
    addresses[0] = places_text(second);
    assert_int_equal(connect_host(), RELOCK_OK);
    assert_true(places_is_at(second, got.fd));
}

static void a_host_without_an_answer_is_an_error_that_says_so(void **state)
{
    (void)state;

    addresses[0] = places_text(places_refuse());
    addresses[1] = places_text(places_hang());
    server.connect_timeout_ms = 200;
    assert_int_equal(connect_host(), RELOCK_E_CONN);
    assert_string_equal(dial.why, "shop.example:6379: no answer to the connection attempt");
}

static void a_host_that_refuses_is_an_error_that_says_so(void **state)
{
    (void)state;

    addresses[0] = places_text(places_refuse());
    addresses[1] = places_text(places_refuse());
    assert_int_equal(connect_host(), RELOCK_E_CONN);
    assert_string_equal(dial.why, "shop.example:6379: Connection refused");
}

static void a_dial_that_ends_during_a_race_leaves_nothing(void **state)
{
    uint64_t now_ms = relock_clock_now_ms();

    (void)state;

    addresses[0] = places_text(places_hang());
    addresses[1] = places_text(places_hang());
    assert_int_equal(relock_dial_step(&dial, now_ms, &got), RELOCK_AGAIN);
    wait_for_dial();
    assert_int_equal(relock_dial_step(&dial, now_ms, &got), RELOCK_AGAIN);
    assert_int_equal(dial.state, RELOCK_DIAL_CONNECTING);
    assert_int_equal(relock_dial_step(&dial, dial.deadline_ms, &got), RELOCK_AGAIN);
    relock_dial_end(&dial);
    assert_int_equal(dial.fd, -1);
}

static int close_all(struct child *parent, void *arg)
{
    (void)parent;
    (void)arg;
    relock_descriptor_close_all(server.scope);
    child_must(fcntl(dial.fd, F_GETFD) < 0);
    for (unsigned i = 0; i < dial.race.n_sockets; i++)
        child_must(fcntl(dial.race.sockets[i], F_GETFD) < 0);
    return EXIT_SUCCESS;
}

static void child_closes_all(void)
{
    assert_int_equal(child_wait(child_start(close_all, NULL), SOON_MS), EXIT_SUCCESS);
}

static void a_forked_child_closes_what_a_dial_has_open(void **state)
{
    uint64_t now_ms = relock_clock_now_ms();

    (void)state;

    server.scope = &server;
    relock_dial_init(&dial, &server);
    addresses[0] = places_text(places_hang());
    addresses[1] = places_text(places_hang());
    assert_int_equal(relock_dial_step(&dial, now_ms, &got), RELOCK_AGAIN);
    assert_int_equal(dial.state, RELOCK_DIAL_RESOLVING);
    child_closes_all();
    wait_for_dial();
    assert_int_equal(relock_dial_step(&dial, now_ms, &got), RELOCK_AGAIN);
    assert_int_equal(relock_dial_step(&dial, dial.deadline_ms, &got), RELOCK_AGAIN);
    assert_int_equal(dial.state, RELOCK_DIAL_CONNECTING);
    assert_int_equal(dial.race.n_sockets, 2);
    child_closes_all();
}

static int option_of(int level, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    assert_int_equal(getsockopt(got.fd, level, option, &value, &len), 0);
    return value;
}

/* The system gives up on bytes that the server has not acknowledged for so long. */
static void the_system_waits_no_longer_than_a_command_and_than_keep_alive(void **state)
{
    static const struct {
        uint64_t command_timeout_ms;
        int user_timeout_ms;
    } cases[] = {{3000, 3000}, {1, 1}, {29999, 29999}, {30001, 30000}, {UINT64_MAX / 2, 30000}};

    (void)state;

    addresses[0] = places_text(places_listen());
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        server.command_timeout_ms = cases[i].command_timeout_ms;
        assert_int_equal(connect_host(), RELOCK_OK);
        assert_int_equal(option_of(IPPROTO_TCP, TCP_USER_TIMEOUT), cases[i].user_timeout_ms);
        assert_int_equal(option_of(SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option_of(IPPROTO_TCP, TCP_NODELAY), 1);
        close(got.fd);
        got.fd = -1;
    }
}

#define DIAL_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIAL_TEST(an_address_without_an_answer_delays_the_others_for_a_moment),
        DIAL_TEST(a_host_is_looked_up_for_each_connection),
        DIAL_TEST(a_host_without_an_answer_is_an_error_that_says_so),
        DIAL_TEST(a_host_that_refuses_is_an_error_that_says_so),
        DIAL_TEST(a_dial_that_ends_during_a_race_leaves_nothing),
        DIAL_TEST(a_forked_child_closes_what_a_dial_has_open),
        DIAL_TEST(the_system_waits_no_longer_than_a_command_and_than_keep_alive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
