/*
 * Schedule - the faults of a run, their times and lengths
 *
 * Drawn from a seed: the same seed gives the same faults at the same times. Storms and calms
 * alternate. In a storm one fault follows the other, some overlap, but never two in one place: a
 * worker with its network is a place, and so is the server. In a calm nothing excuses a waiter that
 * sleeps but should not.
 *
 * With several servers, each server has its own network instead, and only a minority is broken at
 * once.
 *
 * At hot locks single workers are broken, seldom the server, and no network. Faults come in
 * volleys, so that neighbours in a line of waiters fail. The volleys are far apart, but in a
 * cluster: each fault may make a worker retry, which hides that others sleep in vain.
 *
 * In a cluster, which counts as one server, workers and nodes are broken, and the networks of
 * nodes. At hot locks in a cluster, single workers are broken, the slots of the locks move, and the
 * masters of the locks fail. The stage makes the moves of a reentrant lock longer: rush.h.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_SCHEDULE_H
#define RELOCK_TEST_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#define SCHEDULE_MAX_SLOTS 64
#define SCHEDULE_MAX_SERVERS 5
#define SCHEDULE_SERVER (-1) /* slot of the server; further ones are below */

/* The longest lease of a red lock, in watchdog leases. */
#define SCHEDULE_RED_LEASES 2

enum fault_place { PLACE_WORKER, PLACE_NETWORK, PLACE_SERVER };

/* Name, what it breaks, and its relative frequency: with one server, with several, at hot locks, in
 * a cluster, and at hot locks in a cluster. */
#define FAULT_MAP(XX)                                                                              \
    XX(KILL, "kill", WORKER, 6, 4, 36, 6, 36)     /* SIGKILL, then a new process */                \
    XX(STOP, "stop", WORKER, 5, 4, 48, 5, 48)     /* SIGSTOP, SIGCONT */                           \
    XX(DEAFEN, "deafen", WORKER, 0, 0, 30, 0, 60) /* servers cut its subscriber connections */     \
    XX(SEVER, "sever", WORKER, 0, 0, 0, 0, 20)    /* servers cut all its connections */            \
    XX(CUT, "cut", NETWORK, 5, 4, 0, 2, 0)        /* cuts all connections */                       \
    XX(STALL, "stall", NETWORK, 4, 4, 0, 3, 0)   /* connections stay open, nothing gets through */ \
    XX(REFUSE, "refuse", NETWORK, 3, 3, 0, 2, 0) /* connections are cut, and new ones refused */   \
    XX(LATE_COMMAND, "late command", NETWORK, 4, 4, 0, 0, 0) /* scripts run late */                \
    XX(LATE_REPLY, "late reply", NETWORK, 4, 4, 0, 0, 0) /* scripts run, the replies are late */   \
    XX(LOST_REPLY, "lost reply", NETWORK, 3, 3, 0, 0, 0) /* scripts run, the connection ends */    \
    XX(DELAY, "delay", NETWORK, 0, 6, 0, 0, 0)           /* delays all bytes */                    \
    XX(RESTART, "restart", SERVER, 3, 5, 1, 0, 0)        /* SIGKILL, then a restart with data */   \
    XX(REBIRTH, "rebirth", SERVER, 0, 8, 0, 0, 0) /* the same without data, after all leases */    \
    XX(HANG, "hang", SERVER, 2, 5, 0, 0, 0)       /* SIGSTOP, SIGCONT */                           \
    XX(CLIENT_KILL, "client kill", SERVER, 2, 2, 0, 1, 0) /* cuts all connections */               \
    XX(DEAFEN_ALL, "deafen all", SERVER, 0, 0, 1, 1, 1)   /* cuts all subscriber connections */    \
    XX(CLIENT_PAUSE, "client pause", SERVER, 2, 2, 0, 0, 0)                                        \
    XX(SCRIPT_FLUSH, "script flush", SERVER, 1, 1, 1, 1, 1)                                        \
    XX(UPHEAVAL, "upheaval", SERVER, 0, 0, 0, 5, 0)          /* of a cluster: faults/upheaval.h */ \
    XX(MASTER_KILL, "master killed", SERVER, 0, 0, 0, 0, 2)  /* and replaced */                    \
    XX(MASTER_STOP, "master stopped", SERVER, 0, 0, 0, 0, 2) /* until it is replaced */            \
    XX(HAND_OVER, "hand-over", SERVER, 0, 0, 0, 0, 2)        /* a replica takes over */            \
    XX(MOVE, "move", SERVER, 0, 0, 0, 0, 20) /* a slot is half moved, then at another master */

enum fault_kind {
#define FAULT_ENUM_(name, text, place, alone, among, hot, cluster, hot_cluster) FAULT_##name,
    FAULT_MAP(FAULT_ENUM_)
#undef FAULT_ENUM_
        FAULT_N_KINDS
};

struct fault {
    enum fault_kind kind;
    int slot;
    uint64_t at_ms;  /* since the beginning of the run */
    uint64_t for_ms; /* 0: momentary */
    uint64_t delay_ms;
    bool aims; /* it hits a worker that is first in line, or `slot` if there is none */
};

struct schedule {
    /* set by the caller */
    uint64_t seed;
    int n_slots;
    int n_servers;
    bool is_hot;
    bool is_cluster;
    bool no_networks;  /* none is broken */
    uint64_t lease_ms; /* the middle of the lengths of faults */
    uint64_t storm_ms, calm_ms;

    /* internal; zeroed */
    uint64_t at_ms;
    uint64_t busy_until_ms[SCHEDULE_MAX_SERVERS + SCHEDULE_MAX_SLOTS]; /* by slot */
};

/* The next fault, which does not begin before the previous one. */
struct fault schedule_next(struct schedule *schedule);

const char *fault_name(enum fault_kind kind);

/* A number below `n`; changes the seed. */
uint64_t schedule_dice(uint64_t *seed, uint64_t n);

#endif
