/*
 * Sentinels - a master, two replicas, and three sentinels that watch over them
 *
 * Each test gets a new set. It notices a dead master after SENTINELS_DOWN_AFTER_MS and then
 * promotes a replica, unless the program wants a steady one, which never does. The tests run on the
 * terms of support/fixture.h, whose own server has no part in this.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_SENTINELS_H
#define RELOCK_TEST_SENTINELS_H

#include "support/fixture.h"

#define SENTINELS 3
#define SENTINELS_MASTER "mymaster"
#define SENTINELS_NAME "localhost" /* in all certificates */
#define SENTINELS_DOWN_AFTER_MS 1000

/* A user of the servers with all rights. While the default user is off, neither the sentinels nor
 * the other servers get into a server, and this user does. */
#define SENTINELS_LOGIN "locker:secret"

/* From the death of the master until a client can have a lock again. */
#define FAILOVER_MS 30000

struct sentinels {
    struct fixture *f;
    uint64_t down_after_ms;
    bool has_tls;                     /* all connections have it, also those among the servers */
    struct server *server[SENTINELS]; /* the first begins as the master */
    struct probe *probe[SENTINELS];
    struct server *sentinel[SENTINELS];
    struct probe *at_sentinel[SENTINELS];
    char url[256]; /* redis+sentinel://...; rediss+sentinel://..., which needs SENTINELS_NAME */
};

/* Starts and stops all of them, for a program without a fixture. */
void sentinels_launch(struct sentinels *s);
void sentinels_close(struct sentinels *s);

/* As fixture_client(), by the sentinels. Unless the options say otherwise, both replicas must have
 * a hold, so that it survives a failover; connecting may take a second. */
struct relock_client *sentinels_client(struct sentinels *s, const struct relock_options *options);
struct relock_options sentinels_options(struct sentinels *s, const struct relock_options *options);

/* The index of the server that all reachable sentinels call the master; -1 if they do not agree. */
int sentinels_master(struct sentinels *s);

/* Waits until they agree on another master than `old`, and that is one. Returns its index. */
int sentinels_await_master(struct sentinels *s, int old);

/* Waits until both replicas have all that the master has; until all sentinels know who is which. */
void sentinels_await_sync(struct sentinels *s, int master);
void sentinels_await_roles(struct sentinels *s);

/* Has the first sentinel replace the master, and waits until it has. */
void sentinels_replace_master(struct sentinels *s);

/* From now on the sentinels tell the servers by SENTINELS_NAME. */
void sentinels_use_names(struct sentinels *s);

/* A sentinel that watches `port` as SENTINELS_MASTER, alone and for ever. The caller stops it. If
 * there is a password, the user `watcher` has the rights of wire.md, and `admin` has all. */
struct server *sentinels_alone(int port, const char *password);

/* Has a sentinel that watches nothing watch `port`, as above. */
void sentinels_watch(const struct server *sentinel, int port);

/* "redis+sentinel://127.0.0.1:port,127.0.0.1:port/name". `second` may be NULL. */
void sentinels_url(char url[256], const struct server *first, const struct server *second,
                   const char *name);

/* Around each test. */
int sentinels_begin(void **state);
int sentinels_end(void **state);

/* Around the program. */
int sentinels_start(void **state);
int sentinels_start_steady(void **state);
int sentinels_stop(void **state);

#define SENTINELS_TEST(function) \
    cmocka_unit_test_setup_teardown(function, sentinels_begin, sentinels_end)
#define SENTINELS_TESTS_RUN(tests) cmocka_run_group_tests(tests, sentinels_start, sentinels_stop)
#define STEADY_SENTINELS_TESTS_RUN(tests) \
    cmocka_run_group_tests(tests, sentinels_start_steady, sentinels_stop)

#endif
