#include "check.h"

#include "checker.h"

#include <relock.h>
#include <stdlib.h>

#define MAX_TOLD 5 /* printed per kind of violation */

static const char *const texts[] = {
#define TEXT(name, text) text,
    CHECK_MAP(TEXT)
#undef TEXT
};

bool checker_tells(const struct checker *checker, enum check_violation violation)
{
    return checker->report->n_violations[violation] <= MAX_TOLD;
}

void checker_tell(const struct checker *checker, enum check_violation violation,
                  const struct history_record *record)
{
    char line[HISTORY_LINE_MAX];

    if (!record || !checker_tells(checker, violation))
        return;
    history_print(record, line);
    fprintf(checker->out, "    %s\n", line);
}

void checker_report(struct checker *checker, enum check_violation violation,
                    const struct history_record *one, const struct history_record *other)
{
    checker->report->n_violations[violation]++;
    if (checker_tells(checker, violation))
        fprintf(checker->out, "VIOLATION: %s\n", texts[violation]);
    checker_tell(checker, violation, one);
    checker_tell(checker, violation, other);
}

static void check_losses(struct checker *checker)
{
    for (size_t i = 0; i < checker->attempts.n; i++) {
        const struct attempt *hold = &checker->attempts.at[i];

        if (hold->lost && !checker_may_be_lost(checker, hold, hold->lost->to_ns))
            checker_report(checker, CHECK_LOST_EARLY, hold->last, hold->lost);
    }
}

/* ---- what is left -------------------------------------------------------------------------- */

static void check_ends(struct checker *checker)
{
    for (size_t i = 0; i < checker->attempts.n; i++) {
        const struct attempt *attempt = &checker->attempts.at[i];

        if (attempt->killed)
            continue;
        if (!attempt->take || (attempt_is_hold(attempt) && !attempt->left))
            checker_report(checker, CHECK_NEVER_RELEASED,
                           attempt->take ? attempt->take : attempt->ask, attempt->leave);
    }
    for (size_t i = 0; i < checker->records->n; i++) {
        const struct history_record *r = &checker->records->at[i];

        if (r->kind == HISTORY_STAYS || (r->kind == HISTORY_IDLE && r->value != 0))
            checker_report(checker, CHECK_NEVER_RELEASED, r, NULL);
    }
}

/* ---- results ------------------------------------------------------------------------------- */

/* Whether Redis was unreachable or refused: any call may return this. */
static bool is_failure(int result)
{
    return result == RELOCK_E_CONN || result == RELOCK_E_SERVER || result == RELOCK_E_REPLICAS;
}

static bool can_end_wait(const struct history_record *r)
{
    switch (r->result) {
    case RELOCK_OK:
        return (r->token > 0) == (r->sort == HISTORY_FENCED);
    case RELOCK_BUSY:
    case RELOCK_TIMEOUT:
    case RELOCK_CANCELLED:
        return true;
    case RELOCK_LOST: /* a writer that also read, and has released the write side */
        return r->sort == HISTORY_READ;
    default:
        return is_failure(r->result);
    }
}

static bool can_be(const struct history_record *r)
{
    switch (r->kind) {
    case HISTORY_TAKE:
        return can_end_wait(r);
    case HISTORY_CLIMB:
        return r->result == RELOCK_E_DEADLOCK || r->result == RELOCK_LOST;
    case HISTORY_NEST:
    case HISTORY_EXTEND:
    case HISTORY_UNNEST:
    case HISTORY_LEFT:
        return r->result == RELOCK_OK || r->result == RELOCK_LOST || is_failure(r->result);
    case HISTORY_COUNTED:
        return r->result == RELOCK_OK || r->result == RELOCK_BUSY || r->result == RELOCK_TIMEOUT ||
               is_failure(r->result);
    default:
        return true;
    }
}

static void check_results(struct checker *checker)
{
    struct check_report *sum = checker->report;

    for (size_t i = 0; i < checker->records->n; i++) {
        const struct history_record *r = &checker->records->at[i];

        sum->n_asked += r->kind == HISTORY_ASK;
        sum->n_taken[r->sort] += r->kind == HISTORY_TAKE && r->result == RELOCK_OK;
        sum->n_claims += r->kind == HISTORY_CLAIM && r->value > 0;
        sum->n_lost += r->kind == HISTORY_LEFT && r->result == RELOCK_LOST;
        sum->n_failed += r->kind != HISTORY_FAULT && is_failure(r->result);
        if (r->kind == HISTORY_FREE)
            sum->free_ns += r->to_ns - r->from_ns;
        if (!can_be(r))
            checker_report(checker, CHECK_CANNOT_BE, r, NULL);
    }
}

static int compare_times(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

    return (a > b) - (a < b);
}

static void check_gaps(struct checker *checker)
{
    const struct attempts *attempts = &checker->attempts;
    uint64_t *times = malloc((attempts->n + 1) * sizeof(*times));
    size_t n = 0;

    if (!times)
        abort();
    for (size_t i = 0; i < attempts->n; i++)
        if (attempt_is_hold(&attempts->at[i]))
            times[n++] = attempts->at[i].take->to_ns;
    qsort(times, n, sizeof(*times), compare_times);
    for (size_t i = 1; i < n; i++)
        if (times[i] - times[i - 1] > checker->report->gap_ns)
            checker->report->gap_ns = times[i] - times[i - 1];
    free(times);
}

void check(const struct history_records *records, const struct check_limits *limits, FILE *out,
           struct check_report *result)
{
    struct checker checker = {.records = records, .limits = limits, .out = out, .report = result};

    *result = (struct check_report){0};
    attempts_make(&checker.attempts, records);
    excuses_make(&checker.excuses, records, limits->recovery_ms * CHECKER_NS_PER_MS);
    check_exclusion(&checker);
    check_permits(&checker);
    check_numbers(&checker);
    check_tokens(&checker);
    check_order(&checker);
    check_losses(&checker);
    check_ends(&checker);
    check_sleepers(&checker);
    check_results(&checker);
    check_gaps(&checker);
    excuses_free(&checker.excuses);
    attempts_free(&checker.attempts);
}

size_t check_n_violations(const struct check_report *report)
{
    size_t n = 0;

    for (int i = 0; i < CHECK_N_VIOLATIONS; i++)
        n += report->n_violations[i];
    return n;
}
