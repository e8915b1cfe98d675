/* Resolving host names without blocking the caller. */
#include "redis/resolve.h"

#include "base/clock.h"
#include "base/status.h"
#include "support/leaks.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ROUNDS 100

static struct leaks before;

static int begin(void **state)
{
    (void)state;
    before = leaks_now();
    return 0;
}

static int end(void **state)
{
    (void)state;
    return leaks_none_since(&before) ? 0 : -1;
}

static bool is_readable(const struct relock_resolve *resolve, uint64_t within_ms)
{
    struct pollfd pollfd = {.fd = relock_resolve_fd(resolve), .events = POLLIN};

    return poll(&pollfd, 1, (int)slow_ms(within_ms)) == 1;
}

static void an_address_in_digits_is_there_at_once(void **state)
{
    struct relock_resolve *resolve;
    struct addrinfo *addresses = NULL;
    const char *why = NULL;
    struct sockaddr_in address;

    (void)state;

    assert_int_equal(relock_resolve_new("127.0.0.1", 7000, &resolve, &why), RELOCK_OK);
    assert_int_equal(leaks_now().n_threads, before.n_threads);
    assert_true(is_readable(resolve, 0));
    assert_int_equal(relock_resolve_take(resolve, &addresses, &why), RELOCK_OK);
    assert_int_equal(addresses->ai_family, AF_INET);
    assert_int_equal(addresses->ai_socktype, SOCK_STREAM);
    assert_int_equal(addresses->ai_addrlen, sizeof(address));
    address = *(struct sockaddr_in *)(void *)addresses->ai_addr;
    assert_int_equal(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
    assert_int_equal(ntohs(address.sin_port), 7000);
    freeaddrinfo(addresses);
    assert_null(relock_resolve_free(resolve));
}

static void an_ipv6_address_in_digits_is_there_at_once(void **state)
{
    struct relock_resolve *resolve;
    struct addrinfo *addresses = NULL;
    const char *why = NULL;
    struct sockaddr_in6 address;

    (void)state;

    assert_int_equal(relock_resolve_new("::1", 65535, &resolve, &why), RELOCK_OK);
    assert_int_equal(relock_resolve_take(resolve, &addresses, &why), RELOCK_OK);
    assert_int_equal(addresses->ai_family, AF_INET6);
    address = *(struct sockaddr_in6 *)(void *)addresses->ai_addr;
    assert_memory_equal(&address.sin6_addr, &in6addr_loopback, sizeof(in6addr_loopback));
    assert_int_equal(ntohs(address.sin6_port), 65535);
    freeaddrinfo(addresses);
    relock_resolve_free(resolve);
}

static void addresses_that_nobody_takes_are_freed(void **state)
{
    struct relock_resolve *resolve;
    const char *why = NULL;

    (void)state;

    assert_int_equal(relock_resolve_new("127.0.0.1", 7000, &resolve, &why), RELOCK_OK);
    relock_resolve_free(resolve);
    assert_null(relock_resolve_free(NULL));
}

static void localhost_is_found(void **state)
{
    struct relock_resolve *resolve;
    struct addrinfo *addresses = NULL;
    const char *why = NULL;

    (void)state;

    assert_int_equal(relock_resolve_new("localhost", 6379, &resolve, &why), RELOCK_OK);
    assert_true(is_readable(resolve, SOON_MS));
    assert_int_equal(relock_resolve_take(resolve, &addresses, &why), RELOCK_OK);
    assert_non_null(addresses);
    freeaddrinfo(addresses);
    relock_resolve_free(resolve);
}

static void a_name_that_does_not_exist_is_a_failure_with_a_reason(void **state)
{
    /* Invalid without asking a resolver: a label must not be empty. */
    static const char host[] = "no..such..host";
    struct relock_resolve *resolve;
    struct addrinfo *addresses = NULL;
    const char *why = NULL;

    (void)state;

    assert_int_equal(relock_resolve_new(host, 6379, &resolve, &why), RELOCK_OK);
    assert_true(is_readable(resolve, SOON_MS));
    assert_int_equal(relock_resolve_take(resolve, &addresses, &why), RELOCK_E_CONN);
    assert_null(addresses);
    assert_non_null(why);
    assert_string_not_equal(why, "");
    relock_resolve_free(resolve);
}

static void no_address_is_taken_before_the_answer(void **state)
{
    struct relock_resolve *resolve;
    struct addrinfo *addresses = NULL;
    const char *why = NULL;
    int r;

    (void)state;

    assert_int_equal(relock_resolve_new("localhost", 6379, &resolve, &why), RELOCK_OK);
    do {
        r = relock_resolve_take(resolve, &addresses, &why);
        assert_true(r == RELOCK_OK || r == RELOCK_AGAIN);
    } while (r == RELOCK_AGAIN && is_readable(resolve, SOON_MS));
    assert_int_equal(r, RELOCK_OK);
    freeaddrinfo(addresses);
    relock_resolve_free(resolve);
}

/* The end of each test checks that no descriptor and no thread is left. */
static void an_abandoned_lookup_does_not_wait_for_the_answer(void **state)
{
    (void)state;

    for (int i = 0; i < ROUNDS; i++) {
        struct relock_resolve *resolve;
        const char *why = NULL;

        assert_int_equal(relock_resolve_new("localhost", 6379, &resolve, &why), RELOCK_OK);
        if (i % 2 == 1) /* or at the moment when the result arrives */
            assert_true(is_readable(resolve, SOON_MS));
        relock_resolve_free(resolve);
    }
}

#define RESOLVE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESOLVE_TEST(an_address_in_digits_is_there_at_once),
        RESOLVE_TEST(an_ipv6_address_in_digits_is_there_at_once),
        RESOLVE_TEST(addresses_that_nobody_takes_are_freed),
        RESOLVE_TEST(localhost_is_found),
        RESOLVE_TEST(a_name_that_does_not_exist_is_a_failure_with_a_reason),
        RESOLVE_TEST(no_address_is_taken_before_the_answer),
        RESOLVE_TEST(an_abandoned_lookup_does_not_wait_for_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
