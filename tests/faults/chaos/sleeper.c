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

/* The time in which it slept without reason. */
struct sleep {
    uint64_t from_ns, to_ns;
};

/* Reduces the time of a sleeper to its first part without faults that is too long. */
static bool has_no_excuse(const struct checker *checker, const struct history_record *free,
                          const struct attempt *sleeper, struct sleep *sleep)
{
    uint64_t most_ns = longest_ns(checker, free);

    for (size_t i = 0; i < checker->excuses.n && sleep->from_ns < sleep->to_ns; i++) {
        const struct history_record *fault = checker->excuses.at[i];
        uint64_t felt_ns = fault->to_ns + checker->excuses.recovery_ns;

        if (!excuse_touches(fault, sleeper->ask->slot) && !is_for_the_patient(free))
            continue;
        if (fault->from_ns > sleep->from_ns + most_ns)
            break;
        if (felt_ns > sleep->from_ns)
            sleep->from_ns = felt_ns;
    }
    if (sleep->from_ns + most_ns >= sleep->to_ns)
        return false;
    sleep->to_ns = sleep->from_ns + most_ns;
    return true;
}

/* Whether a record of free time is about this lock and this side. */
static bool is_about(const struct history_record *free, const struct attempt *attempt)
{
    return attempt->ask->lock == free->lock && attempt->ask->sort == free->sort;
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
        if (!has_no_excuse(checker, free, attempt, &sleep))
            continue;
        checker_report(checker, CHECK_SLEPT, attempt->ask, free);
        if (checker_tells(checker, CHECK_SLEPT))
            fprintf(checker->out, "    and nothing was broken from %llu to %llu\n",
                    (unsigned long long)sleep.from_ns, (unsigned long long)sleep.to_ns);
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
    uint64_t most_ns = longest_ns(checker, free);
    struct sleep part = {free->from_ns, free->to_ns};

    for (size_t i = 0; i < checker->attempts.n; i++) {
        const struct attempt *attempt = &checker->attempts.at[i];

        if (!took(attempt, free) || attempt->take->to_ns < part.from_ns ||
            attempt->take->to_ns > free->to_ns)
            continue;
        part.to_ns = attempt->take->to_ns;
        if (part.to_ns - part.from_ns > most_ns)
            look_at(checker, free, part);
        part.from_ns = part.to_ns;
    }
    part.to_ns = free->to_ns;
    if (part.to_ns - part.from_ns > most_ns)
        look_at(checker, free, part);
}

void check_sleepers(struct checker *checker)
{
    for (size_t i = 0; i < checker->records->n; i++) {
        const struct history_record *r = &checker->records->at[i];

        if (r->kind == HISTORY_FREE && r->to_ns - r->from_ns > longest_ns(checker, r))
            split(checker, r);
    }
}
