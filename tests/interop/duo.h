/*
 * Duo - the library and another one on the same locks: plain ones, or classic Redlock
 *
 * As support/servers.h, on whose terms all tests here run, and a process with the other library in
 * it. A program is about one kind and one library, which are its arguments: "plain" is one server
 * and relock_plainlock_new(); "quorum" is five, and relock_redlock_new() over plain locks.
 *
 *     static void a_holder_in_the_other_library_excludes_us(void **state)
 *     {
 *         struct duo *d = *state;
 *         struct relock_lock *lock = duo_lock(d, "orders");
 *
 *         assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
 *         assert_result(relock_trylock(lock), RELOCK_BUSY);
 *         ...
 *     }
 *
 * Orders, with what they answer; besides, "failed" and why:
 *
 *     lock NAME LEASE_MS       ok: it waits as long as it takes
 *     trylock NAME LEASE_MS    yes, no
 *     unlock NAME              ok, not-owner
 *     extend NAME LEASE_MS     ok, not-owner
 *     token NAME               what the thread's last lock of the name has as its value
 *     count NAME KEY TIMES     ok: so often it has the lock, adds 1 to KEY by GET and SET, on the
 *                              first server, and gives the lock up
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_DUO_H
#define RELOCK_TEST_DUO_H

#include "support/actor.h"
#include "support/player.h"
#include "support/servers.h"

/* A lease that no test lives to see the end of; one that ends, and one that does too, but not while
 * something is done for it in time, however busy the machine. These are to be slow_ms(). */
#define LONG_MS 60000
#define SHORT_MS 1000
#define KEPT_MS 3000

struct duo {
    struct servers *s;
    struct player *player;
    struct relock_client *clients[SERVERS_MAX]; /* of this test */
    bool has_killed;                            /* a server: the player connects again at leisure */
};

/* What the program is about. Ends it with SERVER_EXIT_SKIP when build.sh has not built that library
 * below RELOCK_TEST_INTEROP. */
void duo_choose(int argc, char **argv);

/* Has holds that are renewed last so long; LONG_MS unless called before the first lock. */
void duo_set_watchdog(struct duo *d, uint64_t watchdog_ms);

/* A handle of the kind, freed at the end of the test. Its clients are connected then: a lock asks
 * nobody whom it cannot reach, and what it did not get from him it has not before it renews. */
struct relock_lock *duo_lock(struct duo *d, const char *name);

/* An order and its answer. In the order a "%" stands for slow_ms(SHORT_MS), a "^" for that of
 * KEPT_MS. */
const char *duo_do(struct duo *d, const char *thread, const char *order);
unsigned duo_begin(struct duo *d, const char *thread, const char *order);

/* How many servers it takes: another one may still be on its way to what most of them are. */
size_t duo_quorum(const struct duo *d);

/* The next test has a player that is connected to all. */
void duo_kill(struct duo *d, size_t server);

/* On how many servers the key is that value, and lasts from the one to the other. */
size_t duo_n_with_value(struct duo *d, const char *key, const char *value);
size_t duo_n_lasting(struct duo *d, const char *key, uint64_t least_ms, uint64_t most_ms);

/* Waits until it is there on all. */
bool duo_wait_all(struct duo *d, const char *key);

/* ---- around tests -------------------------------------------------------------------------- */

int duo_start(void **state);
int duo_stop(void **state);
int duo_setup(void **state);
int duo_teardown(void **state);

#define DUO_TEST(function) cmocka_unit_test_setup_teardown(function, duo_setup, duo_teardown)
#define DUO_TESTS_RUN(tests) cmocka_run_group_tests(tests, duo_start, duo_stop)

#endif
