/*
 * Multi - multi locks of a test, and servers beside that of the fixture
 *
 * MULTI_TESTS_RUN() starts the servers of support/servers.h, on whose terms the tests run, but each
 * is given the fixture. A program that needs one server alone uses fixture_multi() with that.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_MULTI_H
#define RELOCK_TEST_MULTI_H

#include "support/fixture.h"

#define N_BESIDE 2

/* A multi lock of these, freed at the end of the test. The last argument is NULL. */
struct relock_lock *fixture_multi(struct fixture *f, struct relock_lock *first, ...)
    __attribute__((sentinel));

/* From 0. */
struct server *beside_server(size_t nth);
struct probe *beside_probe(size_t nth);

/* A client there, with the log and the losses of the fixture. */
struct relock_client *beside_client(struct fixture *f, size_t nth,
                                    const struct relock_options *options);

/* A multi lock of "a" and "b" of one client, given in the order in which they are not acquired. */
struct multi_pair {
    struct relock_client *client;
    struct relock_lock *a, *b, *both;
};

struct multi_pair multi_pair_of(struct fixture *f, struct relock_client *client);

/* A multi lock with one member on each of three servers. */
struct spread {
    struct relock_client *clients[3];
    struct relock_lock *locks[3];
    struct relock_lock *all;
};

extern const char *const spread_names[3];

struct spread spread_of(struct fixture *f, const struct relock_options *options);
struct server *spread_server(struct fixture *f, size_t nth);
struct probe *spread_probe(struct fixture *f, size_t nth);

/* Waits until one call of a client waits, and the first member, which `first` holds, is acquired.
 */
bool wait_behind_a(struct relock_client *first, struct relock_client *client);

int multi_group_start(void **state);
int multi_group_stop(void **state);
int multi_begin(void **state);
int multi_end(void **state);

#define MULTI_TEST(function) cmocka_unit_test_setup_teardown(function, multi_begin, multi_end)
#define MULTI_TESTS_RUN(tests) cmocka_run_group_tests(tests, multi_group_start, multi_group_stop)

#endif
