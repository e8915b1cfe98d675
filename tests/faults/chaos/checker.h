/*
 * Checker - shared by the parts of the checker
 *
 * Each part looks for the violations that its function is named after, and reports them.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_CHECKER_H
#define RELOCK_TEST_CHECKER_H

#include "attempt.h"
#include "check.h"
#include "excuses.h"

#define CHECKER_NS_PER_MS 1000000

struct checker {
    const struct history_records *records;
    const struct check_limits *limits;
    struct attempts attempts;
    struct excuses excuses;
    FILE *out;
    struct check_report *report;
};

/* Counts a violation, and writes it with the records that show it, or NULL. */
void checker_report(struct checker *checker, enum check_violation violation,
                    const struct history_record *one, const struct history_record *other);

/* Adds a record to the last violation. */
void checker_tell(const struct checker *checker, enum check_violation violation,
                  const struct history_record *record);

/* Whether the last violation was written, not only counted. */
bool checker_tells(const struct checker *checker, enum check_violation violation);

/* Whether the hold may be gone at this time, because a server became the master that had not
 * acknowledged it. */
bool checker_may_be_lost(const struct checker *checker, const struct attempt *hold, uint64_t to_ns);

/* The same of one of two, of which the later one was granted at this time. */
bool checker_may_one_be_lost(const struct checker *checker, const struct attempt *one,
                             const struct attempt *other, uint64_t to_ns);

void check_exclusion(struct checker *checker);
void check_permits(struct checker *checker);
void check_numbers(struct checker *checker);
void check_tokens(struct checker *checker);
void check_order(struct checker *checker);
void check_sleepers(struct checker *checker);

#endif
