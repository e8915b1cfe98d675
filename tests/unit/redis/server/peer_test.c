/* Which connections lead to a server. */
#include "redis/server/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int listening = -1, connected = -1;
static char port[8], other_port[8];

static int begin(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    (void)state;
    listening = socket(AF_INET, SOCK_STREAM, 0);
    connected = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&address, len) != 0 || listen(listening, 1) != 0 ||
        getsockname(listening, (struct sockaddr *)&address, &len) != 0 ||
        connect(connected, (struct sockaddr *)&address, len) != 0)
        return -1;
    snprintf(port, sizeof(port), "%u", ntohs(address.sin_port));
    snprintf(other_port, sizeof(other_port), "%u", ntohs(address.sin_port) ^ 1U);
    return 0;
}

static int end(void **state)
{
    (void)state;
    close(listening);
    close(connected);
    return 0;
}

static bool is_of(const char *host, const char *at_port)
{
    return relock_peer_is_of(&(struct relock_peer){host, at_port}, connected);
}

static void a_connection_leads_to_its_peer_alone(void **state)
{
    (void)state;

    assert_true(is_of("127.0.0.1", port));
    assert_false(is_of("127.0.0.1", other_port));
    assert_false(is_of("127.0.0.2", port));
    assert_false(is_of("::1", port));
    assert_false(is_of("127.0.0.1", ""));
}

static void of_a_name_the_port_is_compared(void **state)
{
    (void)state;

    assert_true(is_of("redis.example.com", port));
    assert_false(is_of("redis.example.com", other_port));
}

static void a_socket_that_is_not_connected_leads_nowhere(void **state)
{
    const struct relock_peer peer = {"127.0.0.1", port};

    (void)state;

    assert_false(relock_peer_is_of(&peer, listening));
    assert_false(relock_peer_is_of(&peer, -1));
}

#define PEER_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PEER_TEST(a_connection_leads_to_its_peer_alone),
        PEER_TEST(of_a_name_the_port_is_compared),
        PEER_TEST(a_socket_that_is_not_connected_leads_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
