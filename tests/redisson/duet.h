/*
 * Duet - the library and Redisson on one server, or in one cluster
 *
 * On the terms of support/fixture.h, with a process that runs Redisson. A program tests one kind of
 * lock with one version of Redisson, which are its arguments; orders omit the kind. With a third
 * argument, "cluster", both lock in a cluster, with sharded channels if this Redisson has them:
 *
 *     static void a_redisson_holder_excludes_us(void **state)
 *     {
 *         struct duet *d = *state;
 *         struct relock_lock *lock = duet_lock(d, duet_client(d), "orders");
 *
 *         assert_string_equal(duet_do(d, "ann", "lock orders"), "ok");
 *         assert_result(relock_trylock(lock), RELOCK_BUSY);
 *         ...
 *     }
 *
 *     int main(int argc, char **argv)
 *     {
 *         const struct CMUnitTest tests[] = {
 *             DUET_TEST(a_redisson_holder_excludes_us),
 *         };
 *         duet_choose(argc, argv);
 *         return DUET_TESTS_RUN(tests);
 *     }
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_DUET_H
#define RELOCK_TEST_DUET_H

#include "redisson.h"
#include "support/actor.h"
#include "support/child.h"
#include "support/cluster_fixture.h"
#include "support/fixture.h"

/* A lease or recheck that ends after every test: a waiter that gets in was woken. Three rechecks
 * are no more than Redisson's timeout in a fair queue, 300 s. */
#define LONG_MS 100000

/* The lease that both renew in tests about renewals. Pass it to slow_ms(). */
#define WATCHDOG_MS 3000

struct duet_kind {
    const char *name; /* in orders */
    fixture_constructor_fn *make;
    bool publishes;
};

struct duet {
    struct fixture *f;
    struct clustered *c; /* NULL: they use the server of the fixture */
    char plain_url[280]; /* of the cluster, without sharded channels */
    struct player *player;
    const struct duet_kind *kind;
};

/* Sets the subject of the program: kind ["reentrant"], version ["newest"], and "cluster". Ends it
 * with SERVER_EXIT_SKIP if that Redisson is missing. */
void duet_choose(int argc, char **argv);

/* Whether the program is about this kind. */
bool duet_is(const struct duet *d, const char *kind);

/* To the server that has this key. */
struct probe *duet_probe(struct duet *d, const char *key);

/* The unix socket of the server that has "orders". */
const char *duet_socket(const struct duet *d);

/* Whether both use sharded channels. */
bool duet_is_sharded(void);

/* Whether our clients keep locks of this kind that nobody uses, for a while: with the argument
 * "keep". */
bool duet_keeps(const struct duet *d);

/* Asserts that a lock which our client has released is kept, or that it is not if our clients keep
 * none. It was acquired after `since_ms`: on a busy machine, its time may be over. */
void duet_assert_kept(const struct duet *d, bool is_kept, uint64_t since_ms);

/* A client; in a child, its own. Both use the channels that this Redisson uses. */
struct relock_client *duet_client_with(struct duet *d, const struct relock_options *options);
struct relock_client *duet_child_client(struct duet *d, const struct relock_options *options);

/* A client whose holds and waits do not end by time. */
struct relock_client *duet_client(struct duet *d);

/* A client whose holds are renewed every third of WATCHDOG_MS. */
struct relock_client *duet_watched_client(struct duet *d);

/* A handle of the kind, or of another one, freed at the end of the test. */
struct relock_lock *duet_lock(struct duet *d, struct relock_client *client, const char *name);
struct relock_lock *duet_lock_of(struct duet *d, const char *kind, struct relock_client *client,
                                 const char *name);

/* ---- Redisson ------------------------------------------------------------------------------ */

/* Like player_do() and player_begin(): VERB NAME [NUMBERS]. */
const char *duet_do(struct duet *d, const char *thread, const char *order);
bool duet_says_yes(struct duet *d, const char *thread, const char *order); /* or "no" */
unsigned duet_begin(struct duet *d, const char *thread, const char *order);
const char *duet_answer(struct duet *d, unsigned order);

/* The same for another kind, which follows the verb. */
const char *duet_do_as(struct duet *d, const char *thread, const char *order);
unsigned duet_begin_wait_as(struct duet *d, const char *thread, const char *order);

/* Like duet_begin(), and waits until the thread sleeps: it has subscribed, and was refused
 * again. A message that arrives while it goes to sleep may be lost: Redisson keeps a "0", but
 * not a "1". */
unsigned duet_begin_wait(struct duet *d, const char *thread, const char *order);

/* ---- us ------------------------------------------------------------------------------------ */

/* Waits until the client's only waiter sleeps. */
bool duet_sleeps(struct duet *d, struct relock_client *client);

/* A process that holds "orders" by a handle of this kind, renewed every third of WATCHDOG_MS. */
struct child *duet_start_holder(struct duet *d, fixture_constructor_fn *make);

/* ---- around tests -------------------------------------------------------------------------- */

int duet_start(void **state);
int duet_stop(void **state);
int duet_setup(void **state);
int duet_teardown(void **state);

#define DUET_TEST(function) cmocka_unit_test_setup_teardown(function, duet_setup, duet_teardown)
#define DUET_TESTS_RUN(tests) cmocka_run_group_tests(tests, duet_start, duet_stop)

#endif
