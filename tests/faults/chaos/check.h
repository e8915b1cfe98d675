/*
 * Check - whether the histories of all processes can be those of a lock
 *
 * It does not know how the histories arose: neither how locks are acquired nor the faults, except
 * for their times.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_CHECK_H
#define RELOCK_TEST_CHECK_H

#include "history.h"

/* Names and texts. */
#define CHECK_MAP(XX)                                                                      \
    XX(TWO_HOLDERS, "two holders at once, and both were told that they were certain")      \
    XX(TOO_MANY, "more permits out than there are, and all were certain")                  \
    XX(MISCOUNTED, "a number was not changed exactly as its commands say")                 \
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
    uint64_t recheck_ms;    /* of the library; 0: no waiter may depend on it */
    uint64_t stopped_ms;    /* how much longer, for each other process that stands still */
    uint64_t spin_pause_ms; /* the longest pause between two attempts of a polling waiter */
    uint64_t patience_ms;   /* how long a fair queue waits for a silent waiter */
    uint64_t round_trip_ms; /* the longest round trip while nothing is broken */
    uint64_t recovery_ms;   /* how long the effects of a fault may last after its end */
};

struct check_report {
    size_t n_asked, n_claims, n_lost, n_failed;
    size_t n_taken[HISTORY_N_SORTS];
    size_t n_numbers;     /* latches and unleased semaphores */
    size_t n_ordered;     /* pairs of waiters with a known order */
    uint64_t free_ns;     /* times when a lock was seen free, in total: when a waiter could sleep
                             without reason */
    uint64_t slept_ns[2]; /* the longest sleep without reason: nobody stood still, somebody did */
    uint64_t gap_ns;      /* the longest time without a grant, of all locks together */
    size_t
        n_doubles_after_loss; /* two holders, of whom the first may have been lost in a failover */
    size_t n_violations[CHECK_N_VIOLATIONS];
};

/* Writes the first few violations of each kind, with the records that show them. */
void check(const struct history_records *records, const struct check_limits *limits, FILE *out,
           struct check_report *report);

size_t check_n_violations(const struct check_report *report);

#endif
