/*
 * A waiter that slept although the lock was free.
 *
 * An observer records when a lock is free, because the holder is not always known: a killed process
 * may have been granted it, and a failed call may have left a hold. If the lock was granted within
 * such a time, the times before and after are checked separately. A waiter has no chance while its
 * process, its network or the server are broken, nor for a while afterwards.
 *
 * For a reader a lock is free while no writer holds it. While the place of a fair queue's silent
 * head is kept, all others must be patient: counted from the last sign of life of the dead or
 * broken process, wherever it was.
 */
#include "checker.h"
#include "schedule.h"

#define NOTED_PART 32

/* Whether the lock was free except for the kept place of a possibly dead waiter. */
static bool is_for_the_patient(const struct history_record *free)
{
    return free->sort == HISTORY_FAIR && free->value == HISTORY_KEPT;
}

static bool is_polled(enum history_sort sort)
{
    return sort == HISTORY_SPIN || sort == HISTORY_PLAIN;
}

/* How long a waiter may sleep without reason: an earlier attempt may still be refused; then it
 * waits, retries, and gets its reply. */
static uint64_t longest_ns(const struct checker *checker, const struct history_record *free)
{
    const struct check_limits *limits = checker->limits;
    uint64_t pause_ms = is_polled(free->sort) ? limits->spin_pause_ms : limits->recheck_ms;

    if (is_for_the_patient(free))
        pause_ms += limits->patience_ms;
    return (pause_ms + 2 * limits->round_trip_ms) * CHECKER_NS_PER_MS;
}

/* Shorter times are not looked at: there are many. */
static uint64_t worth_ns(const struct checker *checker, const struct history_record *free)
{
    return longest_ns(checker, free) / NOTED_PART;
}

/* The time in which it slept without reason. */
struct sleep {
    uint64_t from_ns, to_ns;
};

/* Takes the next part without faults from the time of a sleeper. */
static bool next_part(const struct checker *checker, const struct history_record *free,
                      const struct attempt *sleeper, struct sleep *rest, struct sleep *part)
{
    *part = *rest;
    rest->from_ns = rest->to_ns;
    for (size_t i = 0; i < checker->excuses.n && part->from_ns < part->to_ns; i++) {
        const struct history_record *fault = checker->excuses.at[i];
        uint64_t felt_ns = fault->to_ns + checker->excuses.recovery_ns;

        if (!excuse_touches(fault, sleeper->ask->slot) && !is_for_the_patient(free))
            continue;
        if (fault->from_ns > part->from_ns && fault->from_ns < part->to_ns) {
            part->to_ns = fault->from_ns;
            rest->from_ns = felt_ns;
        } else if (fault->from_ns <= part->from_ns && felt_ns > part->from_ns) {
            part->from_ns = felt_ns;
        }
    }
    return part->from_ns < part->to_ns;
}

/* Whether another process stood still meanwhile: it may have been told that the lock is free. */
static bool has_stopped(const struct history_record *fault, const struct attempt *sleeper,
                        const struct sleep *sleep)
{
    return fault->value == FAULT_STOP && !excuse_touches(fault, sleeper->ask->slot) &&
           fault->from_ns < sleep->to_ns && fault->to_ns > sleep->from_ns;
}

/* Whether both tell of one stop: the stage records it, and so does the pulse of the process. */
static bool is_same_stop(const struct history_record *before, const struct history_record *fault)
{
    return before->value == FAULT_STOP && before->slot == fault->slot &&
           before->to_ns > fault->from_ns;
}

/* Ordered by their beginnings. */
static size_t count_stops(const struct checker *checker, const struct attempt *sleeper,
                          const struct sleep *sleep)
{
    const struct excuses *excuses = &checker->excuses;
    size_t n = 0;

    for (size_t i = 0; i < excuses->n; i++) {
        bool counts = has_stopped(excuses->at[i], sleeper, sleep);

        for (size_t j = 0; j < i && counts; j++)
            counts = !is_same_stop(excuses->at[j], excuses->at[i]) ||
                     !has_stopped(excuses->at[j], sleeper, sleep);
        n += counts;
    }
    return n;
}

/* Whether a record of free time is about this lock and this side. */
static bool is_about(const struct history_record *free, const struct attempt *attempt)
{
    return attempt->ask->lock == free->lock && attempt->ask->sort == free->sort;
}

static void note(struct check_report *report, const struct sleep *sleep, size_t n_stopped)
{
    uint64_t *longest_ns = &report->slept_ns[n_stopped > 0];

    if (sleep->to_ns - sleep->from_ns > *longest_ns)
        *longest_ns = sleep->to_ns - sleep->from_ns;
}

static void look_at_one(struct checker *checker, const struct history_record *free,
                        const struct attempt *sleeper, struct sleep rest)
{
    uint64_t stopped_ns = checker->limits->stopped_ms * CHECKER_NS_PER_MS;
    struct sleep part;

    while (next_part(checker, free, sleeper, &rest, &part)) {
        size_t n_stopped = count_stops(checker, sleeper, &part);

        note(checker->report, &part, n_stopped);
        if (part.to_ns - part.from_ns <= longest_ns(checker, free) + n_stopped * stopped_ns)
            continue;
        checker_report(checker, CHECK_SLEPT, sleeper->ask, free);
        if (checker_tells(checker, CHECK_SLEPT))
            fprintf(checker->out,
                    "    nothing was broken from %llu to %llu, and %zu others stood still\n",
                    (unsigned long long)part.from_ns, (unsigned long long)part.to_ns, n_stopped);
        return;
    }
}

/* Finds waiters that waited while the lock was free and not granted to another. */
static void look_at(struct checker *checker, const struct history_record *free, struct sleep whole)
{
    for (size_t i = 0; i < checker->attempts.n; i++) {
        const struct attempt *attempt = &checker->attempts.at[i];
        struct sleep sleep = whole;

        if (!is_about(free, attempt) || attempt->ask->value == 0)
            continue;
        if (attempt->ask->from_ns > sleep.from_ns)
            sleep.from_ns = attempt->ask->from_ns;
        if (attempt_end_ns(attempt) < sleep.to_ns)
            sleep.to_ns = attempt_end_ns(attempt);
        look_at_one(checker, free, attempt, sleep);
    }
}

/* Whether the lock was granted meanwhile, so that it was not free for a moment. Readers do not
 * exclude readers. */
static bool took(const struct attempt *attempt, const struct history_record *free)
{
    if (attempt->ask->lock != free->lock || !attempt_is_hold(attempt))
        return false;
    return free->sort != HISTORY_READ || attempt->ask->sort != HISTORY_READ;
}

static void split(struct checker *checker, const struct history_record *free)
{
    uint64_t least_ns = worth_ns(checker, free);
    struct sleep part = {free->from_ns, free->to_ns};

    for (size_t i = 0; i < checker->attempts.n; i++) {
        const struct attempt *attempt = &checker->attempts.at[i];

        if (!took(attempt, free) || attempt->take->to_ns < part.from_ns ||
            attempt->take->to_ns > free->to_ns)
            continue;
        part.to_ns = attempt->take->to_ns;
        if (part.to_ns - part.from_ns > least_ns)
            look_at(checker, free, part);
        part.from_ns = part.to_ns;
    }
    part.to_ns = free->to_ns;
    if (part.to_ns - part.from_ns > least_ns)
        look_at(checker, free, part);
}

void check_sleepers(struct checker *checker)
{
    for (size_t i = 0; i < checker->records->n; i++) {
        const struct history_record *r = &checker->records->at[i];

        if (r->kind == HISTORY_FREE && r->to_ns - r->from_ns > worth_ns(checker, r))
            split(checker, r);
    }
}
