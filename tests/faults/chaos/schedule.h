/*
 * Schedule - what is to break, when and for how long
 *
 * Drawn from a seed: the same seed gives the same faults at the same times. Storms and calms take
 * turns. In a storm one fault follows the other, some at once, but never two at one place: a worker
 * with its network is a place, and so is the server. In a calm nothing excuses who sleeps though he
 * should not.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_SCHEDULE_H
#define RELOCK_TEST_SCHEDULE_H

#include <stdint.h>

#define SCHEDULE_MAX_SLOTS 8
#define SCHEDULE_SERVER (-1) /* as a slot: the server, which is all of them */

/* Name, whether it is the server's, and how often it comes, against the others. */
#define FAULT_MAP(XX)                                                                \
    XX(KILL, "kill", 0, 6)                 /* SIGKILL, and a new process */          \
    XX(STOP, "stop", 0, 5)                 /* SIGSTOP, SIGCONT */                    \
    XX(CUT, "cut", 0, 5)                   /* all connections of a worker */         \
    XX(STALL, "stall", 0, 4)               /* those stay, and nothing moves */       \
    XX(REFUSE, "refuse", 0, 3)             /* cut, and no new ones */                \
    XX(LATE_COMMAND, "late command", 0, 4) /* scripts run later, even if given up */ \
    XX(LATE_REPLY, "late reply", 0, 4)     /* they run, and are answered later */    \
    XX(LOST_REPLY, "lost reply", 0, 3)     /* they run, and the connection ends */   \
    XX(RESTART, "restart", 1, 3)           /* SIGKILL, and again with data */        \
    XX(HANG, "hang", 1, 2)                 /* SIGSTOP, SIGCONT */                    \
    XX(CLIENT_KILL, "client kill", 1, 2)   /* all connections */                     \
    XX(CLIENT_PAUSE, "client pause", 1, 2)                                           \
    XX(SCRIPT_FLUSH, "script flush", 1, 1)

enum fault_kind {
#define FAULT_ENUM_(name, text, of_server, weight) FAULT_##name,
    FAULT_MAP(FAULT_ENUM_)
#undef FAULT_ENUM_
        FAULT_N_KINDS
};

struct fault {
    enum fault_kind kind;
    int slot;
    uint64_t at_ms;  /* since the beginning */
    uint64_t for_ms; /* 0: over as soon as done */
};

struct schedule {
    /* set by the caller */
    uint64_t seed;
    int n_slots;
    uint64_t lease_ms; /* faults last from shorter than this to longer */
    uint64_t storm_ms, calm_ms;

    /* its own; zeroed */
    uint64_t at_ms;
    uint64_t busy_until_ms[1 + SCHEDULE_MAX_SLOTS]; /* by slot, the server first */
};

/* The next fault, not before the last. */
struct fault schedule_next(struct schedule *schedule);

const char *fault_name(enum fault_kind kind);

/* A number below `n`; changes the seed. */
uint64_t schedule_dice(uint64_t *seed, uint64_t n);

#endif
