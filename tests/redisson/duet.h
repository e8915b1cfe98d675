/*
 * Duet - the library and Redisson on one server
 *
 * As support/fixture.h, on whose terms all tests here run, and a process with Redisson in it beside
 * it. A program is about one kind of lock in one version of Redisson, which are its arguments;
 * orders leave the kind out:
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
#include "support/fixture.h"

/* A lease and a recheck that no test lives to see the end of: who gets in all the same was woken.
 * Three rechecks are no more than Redisson's patience in a fair queue, 300 s. */
#define LONG_MS 100000

/* The lease that both renew where a test is about that: as such it is to be slow_ms(). */
#define WATCHDOG_MS 3000

struct duet_kind {
    const char *name; /* in orders */
    int (*make)(struct relock_client *client, const char *name, struct relock_lock **lock);
    bool publishes;
};

struct duet {
    struct fixture *f;
    struct player *player;
    const struct duet_kind *kind;
};

/* What the program is about: kind ["reentrant"] and version ["newest"]. Ends it with
 * SERVER_EXIT_SKIP when that Redisson is not there. */
void duet_choose(int argc, char **argv);

/* Whether it is about that kind. */
bool duet_is(const struct duet *d, const char *kind);

/* Its holds and waits end by no time. */
struct relock_client *duet_client(struct duet *d);

/* Its holds are renewed every third of WATCHDOG_MS. */
struct relock_client *duet_watched_client(struct duet *d);

/* A handle of the kind, or of another one, freed at the end of the test. */
struct relock_lock *duet_lock(struct duet *d, struct relock_client *client, const char *name);
struct relock_lock *duet_lock_of(struct duet *d, const char *kind, struct relock_client *client,
                                 const char *name);

/* ---- Redisson ------------------------------------------------------------------------------ */

/* As player_do() and player_begin(): VERB NAME [NUMBERS]. */
const char *duet_do(struct duet *d, const char *thread, const char *order);
unsigned duet_begin(struct duet *d, const char *thread, const char *order);
const char *duet_answer(struct duet *d, unsigned order);

/* The same for another kind, which stands behind the verb. */
const char *duet_do_as(struct duet *d, const char *thread, const char *order);
unsigned duet_begin_wait_as(struct duet *d, const char *thread, const char *order);

/* duet_begin(), and waits until the thread sleeps: it has subscribed, and was refused once more. A
 * message that comes while it goes to sleep may miss it: Redisson keeps a "0", but not a "1". */
unsigned duet_begin_wait(struct duet *d, const char *thread, const char *order);

/* ---- us ------------------------------------------------------------------------------------ */

/* Waits until the waiter of the client, its only one, sleeps. */
bool duet_sleeps(struct duet *d, struct relock_client *client);

/* ---- around tests -------------------------------------------------------------------------- */

int duet_start(void **state);
int duet_stop(void **state);
int duet_setup(void **state);
int duet_teardown(void **state);

#define DUET_TEST(function) cmocka_unit_test_setup_teardown(function, duet_setup, duet_teardown)
#define DUET_TESTS_RUN(tests) cmocka_run_group_tests(tests, duet_start, duet_stop)

#endif
