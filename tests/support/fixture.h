/*
 * Fixture - the private server of a test program, and the clients and locks of each test
 *
 * A test program has one private server. Each test gets it empty, makes its clients and locks here,
 * and must leave nothing: after it, no key and no subscription is left in Redis, no connection, no
 * descriptor and no thread, or the test fails.
 *
 *     static void a_lock_is_free_again_after_unlock(void **state)
 *     {
 *         struct fixture *f = *state;
 *         struct relock_client *client = fixture_client(f, NULL);
 *         struct relock_lock *lock = fixture_lock(f, client, "orders");
 *
 *         assert_result(relock_lock(lock), RELOCK_OK);
 *         ...
 *     }
 *
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = {
 *             SERVER_TEST(a_lock_is_free_again_after_unlock),
 *         };
 *         return SERVER_TESTS_RUN(tests);
 *     }
 *
 * A program that needs another server than the plain one calls fixture_start_with() in a group
 * setup of its own.
 *
 * Threads: the main one. cmocka's assertions jump, so other threads record and the main one
 * asserts: support/actor.h; so do other processes: support/child.h.
 */
#ifndef RELOCK_TEST_FIXTURE_H
#define RELOCK_TEST_FIXTURE_H

#include "support/late.h"
#include "support/leaks.h"
#include "support/log.h"
#include "support/losses.h"
#include "support/probe.h"
#include "support/probe_counts.h"
#include "support/probe_wait.h"
#include "support/server.h"
#include "support/stats.h"
#include "support/wait.h"

#include <relock.h>

#define FIXTURE_MAX_CLIENTS 32
#define FIXTURE_MAX_LOCKS 64

struct fixture {
    struct server *server;
    struct probe *probe;
    struct log *log;        /* of this test's clients */
    struct losses *losses;  /* the reports to their own on_lost */
    const char *neighbours; /* text in CLIENT LIST of connections that others keep; NULL: none */

    struct relock_client *clients[FIXTURE_MAX_CLIENTS];
    struct relock_lock *locks[FIXTURE_MAX_LOCKS];
    struct leaks before;
};

/* A client of this test, freed at its end. Defaults: the server's unix socket, or its port with
 * TLS if it has one; timeouts for a slow machine, the log and the losses of the fixture. A test
 * that sets on_lost or on_log must set arg and both callbacks that it wants. */
struct relock_client *fixture_client(struct fixture *f, const struct relock_options *options);

/* Long holds are not checked: a test can count the commands of its calls, however slow it is. */
struct relock_client *untracked_client(struct fixture *f);

/* A client that renews leases of `lease_ms`, and one for which neither a lease nor a recheck ends
 * before `long_ms`; both times are longer where programs run slowly. */
struct relock_client *watchful_client(struct fixture *f, uint64_t lease_ms);
struct relock_client *patient_client(struct fixture *f, uint64_t long_ms);

/* A client whose waiters never recheck: only a message or the end of a lease wakes them. It sends
 * nothing while they wait. Neither this nor patient_client() checks its holds, so all its commands
 * are those of the test. */
struct relock_client *woken_client(struct fixture *f);

/* In a child process, which frees it: a client as fixture_client() makes it. The child must be
 * forked before the test has clients, whose threads could hold the mutex of the log. */
struct relock_client *child_client(struct fixture *f, const struct relock_options *options);

/* The options that fixture_client() would use, for a child process or a client made by hand. */
struct relock_options fixture_options(struct fixture *f, const struct relock_options *options);

/* A handle of this test, freed at its end. */
struct relock_lock *fixture_lock(struct fixture *f, struct relock_client *client, const char *name);

/* The same of another kind: relock_fencedlock_new, say. */
typedef int fixture_constructor_fn(struct relock_client *client, const char *name,
                                   struct relock_lock **lock);
struct relock_lock *fixture_lock_of(struct fixture *f, struct relock_client *client,
                                    const char *name, fixture_constructor_fn *constructor);

/* A place for a handle that a test makes by itself, freed at the end of the test. */
struct relock_lock **fixture_place(struct fixture *f);

/* relock_acquire() with a fixed lease, and with a callback of its own. Neither waits. */
int acquire_for(struct relock_lock *lock, uint64_t lease_ms);
int acquire_reporting(struct relock_lock *lock, relock_lost_fn *report, void *arg);

/* relock_acquire() with a lease or a command timeout that a machine may stand still for: acquires
 * again if the reply came too late. */
int fixture_acquire(struct relock_lock *lock, const struct relock_how *how);

/* relock_timedlock() for a lock that is held, with a wait that a machine may stand still for: waits
 * again if Redis did not answer. */
int fixture_timedlock(struct relock_lock *lock, int64_t wait_ms);

/* The result of relock_acquire(), but RELOCK_TIMEOUT if the wait ended before Redis answered, which
 * happens on such a machine. */
int fixture_late_is_timeout(const struct relock_how *how, int result);

/* Frees before the end of the test. */
void fixture_free_client(struct fixture *f, struct relock_client *client);
void fixture_free_lock(struct fixture *f, struct relock_lock *lock);

/* How many descriptors a forked child has after it has freed this client; NULL: it frees none. */
int64_t child_descriptors(struct relock_client *client);

/* Waits until both connections that a client opens at once, for callers and for renewals, have
 * logged in. No other client may be there. */
bool wait_for_login(struct probe *probe);

/* Waits until Redis has no key. */
bool wait_for_no_keys(struct probe *probe);

/* Like assert_int_equal() for results, which it names. */
#define assert_result(got, wanted) check_result((got), (wanted), #got, __FILE__, __LINE__)

void check_result(int got, int wanted, const char *call, const char *file, int line);

/* The same for each of these actors' results: support/actor.h. */
#define assert_results(actors, n, wanted)                        \
    do {                                                         \
        for (size_t nth_ = 0; nth_ < (size_t)(n); nth_++)        \
            assert_result(actor_result((actors)[nth_]), wanted); \
    } while (0)

/* The actor, which waits for the lock, gets it and releases it: support/actor.h. */
#define assert_gets_in(actor, lock)                              \
    do {                                                         \
        assert_result(actor_result(actor), RELOCK_OK);           \
        assert_result(actor_unlock((actor), (lock)), RELOCK_OK); \
    } while (0)

/* Since `began_ms`, at least `ms` have passed and at most `late_ms` more. */
#define assert_took(began_ms, ms, late_ms) \
    check_took((began_ms), (ms), (late_ms), __FILE__, __LINE__)

void check_took(uint64_t began_ms, uint64_t ms, uint64_t late_ms, const char *file, int line);

/* For the group setup. */
int fixture_start_with(void **state, const struct server_options *options);
int fixture_start(void **state);
int fixture_start_tcp(void **state);
int fixture_start_on(void **state,
                     struct server *server); /* which runs, and is the fixture's then */
int fixture_stop(void **state);

/* Ends the program: no server is installed. */
void fixture_skip(void) __attribute__((noreturn));

/* Whether nobody is connected to a server and subscribed there but the probe and the neighbours. */
bool fixture_is_alone(struct fixture *f, struct probe *probe);

/* Locks that are kept (`keep_ms`) are nobody's: shuts down the clients that have some. */
void fixture_give_back_kept(struct fixture *f);

/* Around each test. */
int fixture_begin(void **state);
int fixture_end(void **state);

/* Deletes the counters of tokens, which fenced locks leave behind by their nature; the second
 * function then ends the test. */
void forget_counters(struct probe *probe);
int fixture_end_fenced(void **state);

#define SERVER_TEST(function) cmocka_unit_test_setup_teardown(function, fixture_begin, fixture_end)
#define FENCED_TEST(function) \
    cmocka_unit_test_setup_teardown(function, fixture_begin, fixture_end_fenced)
#define SERVER_TESTS_RUN(tests) cmocka_run_group_tests(tests, fixture_start, fixture_stop)

#endif
