/*
 * Faults - the fixture of every fault test: its clients go through a proxy
 *
 * On the terms of support/fixture.h: nothing may be left after a test. The scripts are loaded
 * before each test, and the proxy knows their names, so a test can name the command "unlock 1
 * orders * 0". The probe and the peers reach the server directly.
 *
 *     static void a_waiter_wakes_all_the_same(void **state)
 *     {
 *         struct faults *t = *state;
 *         struct relock_client *client = faults_client(t, NULL);
 *         struct relock_lock *lock = fixture_lock(t->f, client, "orders");
 *         struct proxy_rule *late = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE");
 *
 * A program whose clients connect over TCP has faults_start_tcp() as its group setup.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_FAULTS_H
#define RELOCK_TEST_FAULTS_H

#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"
#include "support/proxy.h"

/* A lease or recheck that ends after every test, so no test waits for its end. */
#define LONG_MS 3600000

#define CHANNEL "redisson_lock__channel:{orders}"
#define WORKER "worker"   /* the user of faults_worker() */
#define PASSWORD "secret" /* and its password */

struct faults {
    struct fixture *f;
    struct proxy *proxy;
    struct actor *looping; /* runs a script that never ends; or NULL */
};

/* The `command_timeout_ms` of tests that wait for its end. Commands that must be answered need
 * to be answered within this time, too, on a slow machine. */
uint64_t short_ms(void);

/* Like fixture_client(), through the proxy. */
struct relock_client *faults_client(struct faults *t, const struct relock_options *options);

/* Whether clients reach the proxy over TCP: always with RELOCK_TEST_TLS. The system then takes the
 * bytes of a command also if the other side has hung up, so the library cannot tell whether it ran.
 */
bool faults_over_tcp(const struct faults *t);

/* For clients of the proxy that a test makes by itself: the value of tls_ca_file. NULL without TLS.
 */
const char *faults_ca_file(const struct faults *t);

/* One that renews leases of `lease_ms`, which outlast a stop of the machine; and one for which
 * nothing ends by time but a command. */
struct relock_client *faults_watchful_client(struct faults *t, uint64_t lease_ms);
struct relock_client *faults_calm_client(struct faults *t, uint64_t command_timeout_ms);

/* As faults_client(), and its I/O thread has connected: later connections count as reconnects. */
struct relock_client *faults_connected_client(struct faults *t,
                                              const struct relock_options *options);

/* Makes the user WORKER, with rights in the words of ACL SETUSER: "~* &* +@all". */
void faults_worker(struct faults *t, const char *words);

/* The rights of WORKER in a program that is run with different ones: by the end of its argument. */
enum faults_rights {
    CAN_KILL,  /* CLIENT KILL precedes the next command under the same number */
    NO_KILL,   /* "no-kill": WORKER may not CLIENT KILL, so late commands do run */
    NO_CLIENT, /* "no-client": nor use CLIENT INFO */
    NO_LINE,   /* "no-line": all clients are WORKER's, and stay outside of the lines of locks */
};
void faults_take_rights(int argc, char **argv);
enum faults_rights faults_rights(void);

/* A client of WORKER with these rights, through the proxy. */
struct relock_client *faults_worker_client(struct faults *t, const struct relock_options *options);

/* Lets `ms` pass, and checks that the client loses no hold meanwhile. */
void nothing_is_lost_for(struct faults *t, struct relock_client *client, uint64_t ms);

/* Lets a held command of WORKER go on, and waits until it has run or, if the connection could be
 * killed, ended without running. */
void faults_run_late(struct proxy_rule *rule);

/* The same, and Redis has the same holders of "orders" afterwards. */
void faults_late_changes_nothing(struct faults *t, struct proxy_rule *rule);

/* At the end no key is left, and no hold was lost. */
void faults_assert_free(struct faults *t);

/* The holders in Redis, with their levels or the token. */
#define FAULTS_HOLDERS_MAX 256
void faults_holders(struct faults *t, char holders[FAULTS_HOLDERS_MAX]);

/* Nothing ends by time, and a hold is handed off only in its first few milliseconds: a waiter
 * that gets in was woken. Its inbox is open, so a refused attempt joins the line at once. */
struct relock_client *faults_patient_client(struct faults *t);

/* A peer holds "orders", and this actor waits for it. */
struct actor *faults_blocked(struct faults *t, struct relock_lock *lock);

/* Releases a lock that the server has forgotten in a restart: it is lost. Over TCP it may also be
 * OK, because a release that had to be repeated finds no key. */
void faults_release_forgotten(struct faults *t, struct relock_lock *lock);

/* One owner of this process holds "orders", the next one waits and is subscribed. A release now
 * goes through Redis. */
void faults_hold_and_wait(struct faults *t, struct relock_client *client, struct relock_lock *lock,
                          struct actor **holding, struct actor **waiting);

/* The waiter gets in without a recheck, and releases. */
void faults_gets_in_by_signals(struct relock_client *client, struct actor *waiting,
                               struct relock_lock *lock);

/* The server runs a script that never ends, and answers BUSY, until it is busy no more. */
void faults_be_busy(struct faults *t);
void faults_be_busy_no_more(struct faults *t);

/* A command that the rule holds meets a server that is busy, which refuses it. On return it is busy
 * no longer. */
void faults_meet_busy(struct faults *t, struct proxy_rule *held);

/* For the group setup: the options of the server, and whether clients connect over TCP. */
int faults_start_with(void **state, const struct server_options *options, bool tcp);
int faults_start(void **state);
int faults_start_tcp(void **state);
int faults_stop(void **state);

/* Around each test. The kind of support/kinds.h is the reentrant one. */
int faults_begin(void **state);
int faults_end(void **state);

#define FAULT_TEST(function) cmocka_unit_test_setup_teardown(function, faults_begin, faults_end)
#define FAULT_TESTS_RUN(tests) cmocka_run_group_tests(tests, faults_start, faults_stop)
#define FAULT_TESTS_RUN_TCP(tests) cmocka_run_group_tests(tests, faults_start_tcp, faults_stop)

#endif
