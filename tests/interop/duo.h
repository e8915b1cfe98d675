/*
 * Duo - the library and another one on the same locks: plain ones, or classic Redlock
 *
 * On the terms of support/servers.h, with a process that runs the other library. A program tests
 * one kind and one library, which are its arguments: "plain" is one server and
 * relock_plainlock_like(); "quorum" is five, and relock_redlock_new() over plain locks.
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
 *     lock NAME LEASE_MS       ok: it waits as long as it takes. If no release wakes a waiter
 *                              that does not poll, it may sleep for LEASE_MS
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

/* A lease that ends after every test. A short lease whose end a test awaits. A longer one that
 * ends in a test, but outlasts the steps before its end on a busy machine. Pass the last two to
 * slow_ms(). */
#define LONG_MS 60000
#define SHORT_MS 1000
#define KEPT_MS 3000

struct duo {
    struct servers *s;
    struct player *player;
    struct relock_client *clients[SERVERS_MAX]; /* of this test */
    bool has_killed; /* servers that failed: the player reconnects in its own time */
};

/* Sets the subject of the program. Ends it with SERVER_EXIT_SKIP if build.sh has not built that
 * library below RELOCK_TEST_INTEROP. */
void duo_choose(int argc, char **argv);

/* Sets the lease of renewed holds; LONG_MS unless called before the first lock. The second also
 * turns client tracking off. */
void duo_set_watchdog(struct duo *d, uint64_t watchdog_ms);
void duo_set_watchdog_alone(struct duo *d, uint64_t watchdog_ms);

/* A lock like one of the other library: the type of relock_lock_new. */
int duo_make_lock(struct relock_client *client, const char *name, struct relock_lock **lock);

/* A handle of the kind, freed at the end of the test. Its clients are connected: an acquire
 * skips an unreachable server, which then has no vote before the first renewal. */
struct relock_lock *duo_lock(struct duo *d, const char *name);

/* Sends an order and returns its answer. In the order, "%" stands for slow_ms(SHORT_MS), "^" for
 * slow_ms(KEPT_MS). */
const char *duo_do(struct duo *d, const char *thread, const char *order);
unsigned duo_begin(struct duo *d, const char *thread, const char *order);

/* A second process, which the caller ends. Some libraries keep their own waiters in the process. */
struct player *duo_another_player(struct duo *d);

/* SIGKILL: its holds stay until their leases end. A new one is there then. */
void duo_kill_player(struct duo *d);

/* The key of a lock. Valid until the next call. */
const char *duo_key(const char *name);

/* The thread releases "orders", which it no longer holds. Not every library says so. */
void duo_release_lost(struct duo *d, const char *thread);

/* Whether a release of the library leaves the hold of another alone. If not, it does so only after
 * the end of its own lease, by its own clock. */
bool duo_compares(void);

/* The size of a quorum: commands to the other servers may still be in flight. */
size_t duo_quorum(const struct duo *d);

/* The next test gets a player that is connected to all servers. */
void duo_kill(struct duo *d, size_t server);

/* The number of servers on which the key has this value, and a remaining lease between the two. */
size_t duo_n_with_value(struct duo *d, const char *key, const char *value);
size_t duo_n_lasting(struct duo *d, const char *key, uint64_t least_ms, uint64_t most_ms);

/* Waits until all servers have it, or none. */
bool duo_wait_all(struct duo *d, const char *key);
bool duo_wait_none(struct duo *d, const char *key);

/* A holder of "orders" on one side keeps the other side out until its release. */
void duo_they_exclude_us(struct duo *d, struct relock_lock *lock);
void duo_we_exclude_them(struct duo *d, struct relock_lock *lock);

/* ---- around tests -------------------------------------------------------------------------- */

int duo_start(void **state);
int duo_stop(void **state);
int duo_setup(void **state);
int duo_teardown(void **state);

#define DUO_TEST(function) cmocka_unit_test_setup_teardown(function, duo_setup, duo_teardown)
#define DUO_TESTS_RUN(tests) cmocka_run_group_tests(tests, duo_start, duo_stop)

#endif
