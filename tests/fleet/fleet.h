/*
 * Fleet - processes with an earlier and with this version of the library, which share locks
 *
 * Each process follows orders: worker.c. They lock in the deployment that the program was started
 * with: "server", "keep" (a server, and locks that nobody uses are kept), "sentinel", "sharded" or
 * "plain" (a cluster, with such channels). The last two arguments of the program are the
 * deployment and the path of the worker of this version; that of the earlier one is below
 * RELOCK_TEST_FLEET, where build.sh has put it.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_FLEET_H
#define RELOCK_TEST_FLEET_H

#include "support/cluster_fixture.h"
#include "support/held.h"
#include "support/player.h"
#include "support/sentinels.h"

#define FLEET_N 6 /* processes at a time */
#define FLEET_MAX_STARTS 64

enum fleet_version { FLEET_OLD, FLEET_NEW, FLEET_VERSIONS };

#define FLEET_KINDS 7

/* A kind and the name of its lock. The sides of a read-write lock have one lock. */
struct fleet_kind {
    const char *name, *lock;
    bool has_line;  /* on a server; its waiters are served in order there */
    bool has_queue; /* they are served in order everywhere */
};

extern const struct fleet_kind fleet_kinds[FLEET_KINDS];

/* The first ones, which are tested in this deployment: of those that are kept, or all. */
int fleet_n_kinds(void);

struct fleet_member {
    struct player *player; /* NULL: none runs */
    enum fleet_version version;
    char who[16];
    unsigned contends[FLEET_KINDS]; /* orders; 0: none */
};

struct fleet {
    struct fixture *f;
    struct clustered *c; /* NULL: no cluster */
    struct sentinels *s; /* NULL: no sentinels */
    struct fleet_member members[FLEET_N];
    uint64_t recheck_ms; /* of processes that start; NEVER_MS at the beginning of a test */
    int n_starts;
    struct helds helds;                       /* of those that have ended */
    uint64_t longest_wait_ms[FLEET_VERSIONS]; /* of those that have contended */
};

/* The program skips all if the earlier version or the servers are missing. */
void fleet_choose(int argc, char **argv);

/* Whether waiters of both versions are served in the order of their arrival. */
bool fleet_has_order(const struct fleet *fleet, const struct fleet_kind *kind);

/* The server with the key of a lock. */
struct probe *fleet_probe(struct fleet *fleet, const char *lock);

/* Process `i`, which does not run, starts with this version. It ends by its own will. Or it is
 * killed, and the server with the lock of this kind has noticed. */
void fleet_start(struct fleet *fleet, int i, enum fleet_version version);
void fleet_end(struct fleet *fleet, int i);
void fleet_kill(struct fleet *fleet, int i, const struct fleet_kind *kind);

/* Orders for the lock of the kind. The first asserts success. The second waits until the process
 * sleeps, behind `n_before` others. */
void fleet_do(struct fleet *fleet, int i, const char *verb, const struct fleet_kind *kind);
unsigned fleet_begin_pass(struct fleet *fleet, int i, const struct fleet_kind *kind, int n_before);

/* The hold of such a pass, which must succeed. */
struct held fleet_passed(struct fleet *fleet, int i, const struct fleet_kind *kind, unsigned order);

/* Dead waiters keep their places in a queue of a fair lock: deletes the queue. */
void fleet_forget_queue(struct fleet *fleet, const struct fleet_kind *kind);

/* The process begins to pass without end, by the locks of all kinds. fleet_end() ends that. */
void fleet_contend(struct fleet *fleet, int i);

int fleet_group_start(void **state);
int fleet_group_stop(void **state);
int fleet_setup(void **state);
int fleet_teardown(void **state);

#define FLEET_TEST(function) cmocka_unit_test_setup_teardown(function, fleet_setup, fleet_teardown)
#define FLEET_TESTS_RUN(tests) cmocka_run_group_tests(tests, fleet_group_start, fleet_group_stop)

#endif
