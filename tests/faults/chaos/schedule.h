/*
 * Schedule - the faults of a run, their times and lengths
 *
 * Drawn from a seed: the same seed gives the same faults at the same times. Storms and calms take
 * turns. In a storm one fault follows the other, some at once, but never two at one place: a worker
 * with its network is a place, and so is the server. In a calm nothing excuses a waiter that sleeps
 * but should not.
 *
 * Of several servers each has a network of its own instead, and only a minority is broken at once.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_SCHEDULE_H
#define RELOCK_TEST_SCHEDULE_H

#include <stdint.h>

#define SCHEDULE_MAX_SLOTS 8
#define SCHEDULE_MAX_SERVERS 5
#define SCHEDULE_SERVER (-1) /* as a slot: the server; the next ones are below it */

/* No lease of a red lock is longer than so many of the watchdog's. */
#define SCHEDULE_RED_LEASES 2

enum fault_place { PLACE_WORKER, PLACE_NETWORK, PLACE_SERVER };

/* Name, what it breaks, and how often it comes, against the others: with one server, with several.
 */
#define FAULT_MAP(XX)                                                                         \
    XX(KILL, "kill", WORKER, 6, 4)                  /* SIGKILL, and a new process */          \
    XX(STOP, "stop", WORKER, 5, 4)                  /* SIGSTOP, SIGCONT */                    \
    XX(CUT, "cut", NETWORK, 5, 4)                   /* all connections */                     \
    XX(STALL, "stall", NETWORK, 4, 4)               /* those stay, and nothing moves */       \
    XX(REFUSE, "refuse", NETWORK, 3, 3)             /* cut, and no new ones */                \
    XX(LATE_COMMAND, "late command", NETWORK, 4, 4) /* scripts run later, even if given up */ \
    XX(LATE_REPLY, "late reply", NETWORK, 4, 4)     /* they run, and are answered later */    \
    XX(LOST_REPLY, "lost reply", NETWORK, 3, 3)     /* they run, and the connection ends */   \
    XX(DELAY, "delay", NETWORK, 0, 6)               /* all that is sent */                    \
    XX(RESTART, "restart", SERVER, 3, 5)            /* SIGKILL, and again with data */        \
    XX(REBIRTH, "rebirth", SERVER, 0, 8)            /* and empty, when its leases are over */ \
    XX(HANG, "hang", SERVER, 2, 5)                  /* SIGSTOP, SIGCONT */                    \
    XX(CLIENT_KILL, "client kill", SERVER, 2, 2)    /* all connections */                     \
    XX(CLIENT_PAUSE, "client pause", SERVER, 2, 2)                                            \
    XX(SCRIPT_FLUSH, "script flush", SERVER, 1, 1)

enum fault_kind {
#define FAULT_ENUM_(name, text, place, alone, among) FAULT_##name,
    FAULT_MAP(FAULT_ENUM_)
#undef FAULT_ENUM_
        FAULT_N_KINDS
};

struct fault {
    enum fault_kind kind;
    int slot;
    uint64_t at_ms;  /* since the beginning */
    uint64_t for_ms; /* 0: over as soon as done */
    uint64_t delay_ms;
};

struct schedule {
    /* set by the caller */
    uint64_t seed;
    int n_slots;
    int n_servers;
    uint64_t lease_ms; /* faults last from shorter than this to longer */
    uint64_t storm_ms, calm_ms;

    /* its own; zeroed */
    uint64_t at_ms;
    uint64_t busy_until_ms[SCHEDULE_MAX_SERVERS + SCHEDULE_MAX_SLOTS]; /* by slot */
};

/* The next fault, not before the last. */
struct fault schedule_next(struct schedule *schedule);

const char *fault_name(enum fault_kind kind);

/* A number below `n`; changes the seed. */
uint64_t schedule_dice(uint64_t *seed, uint64_t n);

#endif
