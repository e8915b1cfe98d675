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
