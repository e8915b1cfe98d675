/*
 * The order of a fair lock: a waiter that came clearly later must not be granted it clearly
 * earlier.
 *
 * A waiter is in the queue at most a round trip after its call. If its place or the server was
 * broken, it is there once that was mended and has no more effects: the fault may have cost it its
 * place, because it could not ask or looked dead. A waiter that came later is behind it, whatever
 * happened to others: a fault or a death elsewhere may delay both, but changes no order.
 *
 * The earlier waiter was in the queue at the grant of the other if it was granted the lock later
 * and was certain then: with an earlier grant, both would have held it. Otherwise the end of its
 * wait is unknown: it must have waited for a round trip longer than the other.
 */
#include "checker.h"

static bool is_queued(const struct attempt *attempt)
{
    return attempt->ask->sort == HISTORY_FAIR && attempt->ask->value > 0;
}

static uint64_t queued_until_ns(const struct attempt *waiter, uint64_t round_trip_ns)
{
    uint64_t end_ns = attempt_end_ns(waiter);

    if (attempt_is_certain(waiter))
        return end_ns;
    return end_ns > round_trip_ns ? end_ns - round_trip_ns : 0;
}

static void check_pair(struct checker *checker, const struct attempt *waiter,
                       const struct attempt *later)
{
    uint64_t round_trip_ns = checker->limits->round_trip_ms * CHECKER_NS_PER_MS;
    uint64_t until_ns = queued_until_ns(waiter, round_trip_ns), from_ns = waiter->ask->from_ns;

    if (later->ask->from_ns <= from_ns || later->ask->from_ns >= until_ns)
        return;
    from_ns = excuses_over_since_ns(&checker->excuses, waiter->ask->slot, from_ns,
                                    later->take->to_ns < until_ns ? later->take->to_ns : until_ns);
    if (later->ask->from_ns <= from_ns + round_trip_ns)
        return;
    checker->report->n_ordered++;
    if (later->take->to_ns >= until_ns)
        return;
    checker_report(checker, CHECK_OVERTAKEN, waiter->ask, later->ask);
    checker_tell(checker, CHECK_OVERTAKEN, later->take);
    checker_tell(checker, CHECK_OVERTAKEN, waiter->take);
}

void check_order(struct checker *checker)
{
    const struct attempts *attempts = &checker->attempts;
    uint64_t round_trip_ns = checker->limits->round_trip_ms * CHECKER_NS_PER_MS;

    for (size_t i = 0; i < attempts->n; i++) {
        const struct attempt *waiter = &attempts->at[i];

        if (!is_queued(waiter) || attempt_end_ns(waiter) <= waiter->ask->from_ns + round_trip_ns)
            continue;
        for (size_t j = 0; j < attempts->n; j++) {
            const struct attempt *later = &attempts->at[j];

            if (later->ask->lock == waiter->ask->lock && attempt_is_hold(later))
                check_pair(checker, waiter, later);
        }
    }
}
