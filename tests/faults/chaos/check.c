#include "check.h"

#include "attempt.h"
#include "sleeper.h"

#include <relock.h>

#define NS_PER_MS 1000000
#define MAX_TOLD 5 /* of a kind */

struct checker {
    const struct history_records *records;
    struct attempts attempts;
    FILE *out;
    struct check_report *report;
};

static const char *const texts[] = {
#define TEXT(name, text) text,
    CHECK_MAP(TEXT)
#undef TEXT
};

/* A record that shows it, if there is such a one. */
static void tell(const struct checker *checker, enum check_violation violation,
                 const struct history_record *record)
{
    char line[HISTORY_LINE_MAX];

    if (!record || checker->report->n_violations[violation] > MAX_TOLD)
        return;
    history_print(record, line);
    fprintf(checker->out, "    %s\n", line);
}

static void report(struct checker *checker, enum check_violation violation,
                   const struct history_record *one, const struct history_record *other)
{
    if (++checker->report->n_violations[violation] <= MAX_TOLD)
        fprintf(checker->out, "VIOLATION: %s\n", texts[violation]);
    tell(checker, violation, one);
    tell(checker, violation, other);
}

/* ---- exclusion ----------------------------------------------------------------------------- */

/* In the order in which they were taken, only that which reaches furthest can be in the way. */
static void check_two_holders(struct checker *checker)
{
    const struct attempt *before = NULL;

    for (size_t i = 0; i < checker->attempts.n; i++) {
        const struct attempt *hold = &checker->attempts.at[i];
        uint64_t until_ns = attempt_certain_until_ns(hold);

        if (!attempt_is_hold(hold) || until_ns <= hold->take->to_ns)
            continue;
        if (before && before->ask->lock != hold->ask->lock)
            before = NULL;
        if (before && attempt_certain_until_ns(before) > hold->take->to_ns) {
            report(checker, CHECK_TWO_HOLDERS, before->last, hold->take);
            tell(checker, CHECK_TWO_HOLDERS, before->leave);
            tell(checker, CHECK_TWO_HOLDERS, hold->first);
        }
        if (!before || attempt_certain_until_ns(before) < until_ns)
            before = hold;
    }
}

/* Asked for and granted, or said to be certain, between the grant and the release of this hold. */
static bool was_taken_within(const struct attempt *other, const struct attempt *hold)
{
    uint64_t from_ns = hold->take->to_ns, to_ns = hold->leave->from_ns;

    if (other->ask->from_ns > from_ns && other->take->to_ns < to_ns)
        return true;
    return other->first && other->first->from_ns > from_ns && other->first->to_ns < to_ns;
}

static void check_released_holds(struct checker *checker)
{
    const struct attempts *attempts = &checker->attempts;

    for (size_t i = 0; i < attempts->n; i++) {
        const struct attempt *hold = &attempts->at[i];

        if (!attempt_is_hold(hold) || !hold->left || hold->left->result != RELOCK_OK)
            continue;
        for (size_t j = i + 1; j < attempts->n; j++) {
            const struct attempt *other = &attempts->at[j];

            if (other->ask->lock != hold->ask->lock || !attempt_is_hold(other) ||
                other->take->to_ns >= hold->leave->from_ns)
                break;
            if (!was_taken_within(other, hold))
                continue;
            report(checker, CHECK_OK_THOUGH_TAKEN, hold->take, other->take);
            tell(checker, CHECK_OK_THOUGH_TAKEN, hold->left);
        }
    }
}

static void check_losses(struct checker *checker)
{
    for (size_t i = 0; i < checker->attempts.n; i++) {
        const struct attempt *hold = &checker->attempts.at[i];

        if (hold->lost)
            report(checker, CHECK_LOST_EARLY, hold->last, hold->lost);
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
            report(checker, CHECK_NEVER_RELEASED, attempt->take ? attempt->take : attempt->ask,
                   attempt->leave);
    }
    for (size_t i = 0; i < checker->records->n; i++) {
        const struct history_record *r = &checker->records->at[i];

        if (r->kind == HISTORY_STAYS || (r->kind == HISTORY_IDLE && r->value != 0))
            report(checker, CHECK_NEVER_RELEASED, r, NULL);
    }
}

static void on_sleeper(const struct sleeper *sleeper, void *arg)
{
    struct checker *checker = arg;

    report(checker, CHECK_SLEPT, sleeper->wait, sleeper->free);
    if (checker->report->n_violations[CHECK_SLEPT] <= MAX_TOLD)
        fprintf(checker->out, "    and nothing was broken from %llu to %llu\n",
                (unsigned long long)sleeper->from_ns, (unsigned long long)sleeper->to_ns);
}

/* ---- results ------------------------------------------------------------------------------- */

/* Whether Redis could not be asked, or refused: that may come of every call. */
static bool is_failure(int result)
{
    return result == RELOCK_E_CONN || result == RELOCK_E_SERVER;
}

static bool can_be(const struct history_record *r)
{
    switch (r->kind) {
    case HISTORY_TAKE:
        return r->result == RELOCK_OK || r->result == RELOCK_BUSY || r->result == RELOCK_TIMEOUT ||
               r->result == RELOCK_CANCELLED || is_failure(r->result);
    case HISTORY_NEST:
    case HISTORY_EXTEND:
    case HISTORY_UNNEST:
    case HISTORY_LEFT:
        return r->result == RELOCK_OK || r->result == RELOCK_LOST || is_failure(r->result);
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
        sum->n_taken += r->kind == HISTORY_TAKE && r->result == RELOCK_OK;
        sum->n_claims += r->kind == HISTORY_CLAIM && r->value > 0;
        sum->n_lost += r->kind == HISTORY_LEFT && r->result == RELOCK_LOST;
        sum->n_failed += r->kind != HISTORY_FAULT && is_failure(r->result);
        if (r->kind == HISTORY_FREE)
            sum->free_ns += r->to_ns - r->from_ns;
        if (!can_be(r))
            report(checker, CHECK_CANNOT_BE, r, NULL);
    }
}

void check(const struct history_records *records, const struct check_limits *limits, FILE *out,
           struct check_report *result)
{
    struct checker checker = {.records = records, .out = out, .report = result};

    *result = (struct check_report){0};
    attempts_make(&checker.attempts, records);
    check_two_holders(&checker);
    check_released_holds(&checker);
    check_losses(&checker);
    check_ends(&checker);
    sleepers_find(records, &checker.attempts,
                  (limits->recheck_ms + limits->round_trip_ms) * NS_PER_MS,
                  limits->recovery_ms * NS_PER_MS, on_sleeper, &checker);
    check_results(&checker);
    attempts_free(&checker.attempts);
}

size_t check_n_violations(const struct check_report *report)
{
    size_t n = 0;

    for (int i = 0; i < CHECK_N_VIOLATIONS; i++)
        n += report->n_violations[i];
    return n;
}
