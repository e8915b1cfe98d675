/*
 * Check - whether the histories of all processes can be those of a lock
 *
 * It knows nothing of how they came about: neither the way of taking the lock nor the faults,
 * except for their times.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_CHECK_H
#define RELOCK_TEST_CHECK_H

#include "history.h"

/* Name and text. */
#define CHECK_MAP(XX)                                                                      \
    XX(TWO_HOLDERS, "two holders at once, and both were told that they were certain")      \
    XX(OK_THOUGH_TAKEN, "RELOCK_OK from the release of a hold that another had meanwhile") \
    XX(NEVER_RELEASED, "taken and never released, though the owner lived")                 \
    XX(SLEPT, "a waiter slept though the lock was free")                                   \
    XX(OVERTAKEN, "a waiter was overtaken by one that came clearly later")                 \
    XX(TOKENS, "tokens do not grow with the holds, or differ within one")                  \
    XX(LOST_EARLY, "lost at a time until which it had been certain")                       \
    XX(CANNOT_BE, "a result that cannot be")

enum check_violation {
#define CHECK_ENUM_(name, text) CHECK_##name,
    CHECK_MAP(CHECK_ENUM_)
#undef CHECK_ENUM_
        CHECK_N_VIOLATIONS
};

struct check_limits {
    uint64_t recheck_ms;    /* of the library */
    uint64_t spin_pause_ms; /* its longest, between two tries of one who polls */
    uint64_t patience_ms;   /* of a fair queue with one who does not ask */
    uint64_t round_trip_ms; /* the longest that asking takes where nothing is broken */
    uint64_t recovery_ms;   /* how long after it a fault may still be felt */
};

struct check_report {
    size_t n_asked, n_claims, n_lost, n_failed;
    size_t n_taken[HISTORY_N_SORTS];
    size_t n_ordered; /* pairs of waiters of which it was clear who has to go first */
    uint64_t free_ns; /* seen free, all locks together: when one could sleep without reason */
    size_t n_violations[CHECK_N_VIOLATIONS];
};

/* Writes each violation with the records that show it; of a kind, the first few. */
void check(const struct history_records *records, const struct check_limits *limits, FILE *out,
           struct check_report *report);

size_t check_n_violations(const struct check_report *report);

#endif
