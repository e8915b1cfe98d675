/*
 * Cluster fixture - a private cluster for the tests of a program
 *
 * As support/fixture.h, on whose terms all tests here run and whose own server has no part in this.
 * The program has one cluster of three masters with a replica each. Each test gets it whole and
 * empty, breaks it as it likes, and need not mend it; but it must remove nodes that it added, and
 * leave no key and no connection.
 *
 *     static void a_lock_is_found_where_its_slot_went(void **state)
 *     {
 *         struct clustered *c = *state;
 *         struct relock_lock *lock = fixture_lock(c->f, clustered_client(c, NULL), "orders");
 *         int slot = cluster_slot(c->cluster, "orders");
 *
 *         assert_result(relock_lock(lock), RELOCK_OK);
 *         cluster_move(c->cluster, slot, ...);
 *         assert_result(relock_unlock(lock), RELOCK_OK);
 *     }
 *
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = {
 *             CLUSTER_TEST(a_lock_is_found_where_its_slot_went),
 *         };
 *         return CLUSTER_TESTS_RUN(tests);
 *     }
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_CLUSTER_FIXTURE_H
#define RELOCK_TEST_CLUSTER_FIXTURE_H

#include "support/cluster.h"
#include "support/cluster_move.h"
#include "support/cluster_view.h"
#include "support/fixture.h"

struct clustered {
    struct fixture *f;
    struct cluster *cluster;
};

/* As fixture_client(), by the url of the cluster: with TLS if it has that. */
struct relock_client *clustered_client(struct clustered *c, const struct relock_options *options);
struct relock_options clustered_options(struct clustered *c, const struct relock_options *options);

/* A master that does not own the slot. */
size_t clustered_other(struct clustered *c, int slot);

/* The lock "orders" of a client with such leases, and its place. */
struct clustered_lock {
    struct relock_client *client;
    struct relock_lock *lock;
    int slot;
    size_t owner; /* of the slot */
};

struct clustered_lock clustered_lock(struct clustered *c, uint64_t lease_ms);

/* Acquires nine locks, "orders:0" and so on, so that each master has some; releases them. */
#define CLUSTERED_LOCKS 9
void clustered_lock_all(struct clustered *c, struct relock_client *client,
                        struct relock_lock *locks[CLUSTERED_LOCKS]);
void clustered_unlock_all(struct relock_lock *locks[CLUSTERED_LOCKS]);

/* A master dies, and its replica, which has all that the master had, replaces it. */
void clustered_kill(struct clustered *c, size_t master);

/* For the group setup. NULL options: as cluster_start(). */
int clustered_start_with(void **state, const struct cluster_options *options);
int clustered_start(void **state);
int clustered_stop(void **state);

/* Around each test. */
int clustered_begin(void **state);
int clustered_end(void **state);

#define CLUSTER_TEST(function) \
    cmocka_unit_test_setup_teardown(function, clustered_begin, clustered_end)
#define CLUSTER_TESTS_RUN(tests) cmocka_run_group_tests(tests, clustered_start, clustered_stop)

#endif
