/*
 * Servers - several servers that know nothing of each other, for locks that need a quorum
 *
 * As support/fixture.h, on whose terms all tests here run, with further servers of the same kind.
 * Each has a unix socket, a port of the loopback, and a proxy in front. Each test gets them all, up
 * and empty, breaks them as it likes by server_kill(), _pause(), _restart() and proxy_delay(),
 * _stall() and the like, and need not mend them; but it must leave no key, no subscription and no
 * connection on any of them.
 *
 *     static void a_minority_may_be_down_from_the_start(void **state)
 *     {
 *         struct servers *s = *state;
 *
 *         server_kill(s->server[3]);
 *         server_pause(s->server[4]);
 *         for (size_t i = 0; i < s->n; i++)
 *             clients[i] = servers_client(s, i, NULL);
 *         ...
 *     }
 *
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = {
 *             SERVERS_TEST(a_minority_may_be_down_from_the_start),
 *         };
 *         return SERVERS_TESTS_RUN(tests);
 *     }
 *
 * A program that wants neither five nor three calls servers_start_with() in a group setup of its
 * own.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_SERVERS_H
#define RELOCK_TEST_SERVERS_H

#include "support/fixture.h"
#include "support/proxy.h"

#define SERVERS_MAX 9

struct servers {
    struct fixture *f; /* its server and probe are the first */
    size_t n;
    struct server *server[SERVERS_MAX];
    struct probe *probe[SERVERS_MAX]; /* goes past the proxy */
    struct proxy *proxy[SERVERS_MAX];
};

/* As fixture_client(), to the i-th server, and RELOCK_LAZY: made also if that is down. */
struct relock_client *servers_client(struct servers *s, size_t i,
                                     const struct relock_options *options);

/* The same through its proxy. */
struct relock_client *servers_client_by_proxy(struct servers *s, size_t i,
                                              const struct relock_options *options);

/* Starts those that are down, all at the same time, and lets those that stand still go on. */
void servers_up(struct servers *s);

/* For the group setup. The options are those of each: TCP they have in any case. */
int servers_start_with(void **state, size_t n, const struct server_options *options);
int servers_start(void **state);
int servers_start_three(void **state);
int servers_stop(void **state);

/* Around each test. */
int servers_begin(void **state);
int servers_end(void **state);

#define SERVERS_TEST(function) cmocka_unit_test_setup_teardown(function, servers_begin, servers_end)
#define SERVERS_TESTS_RUN(tests) cmocka_run_group_tests(tests, servers_start, servers_stop)
#define THREE_SERVERS_TESTS_RUN(tests) \
    cmocka_run_group_tests(tests, servers_start_three, servers_stop)

#endif
