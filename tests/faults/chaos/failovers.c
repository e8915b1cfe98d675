/*
 * Failovers: what the new master had not got is lost. A hold that its replica had acknowledged, or
 * that was granted before that replica was stalled, must not be lost.
 */
#include "checker.h"

bool checker_may_be_lost(const struct checker *checker, const struct attempt *hold, uint64_t to_ns)
{
    for (size_t i = 0; i < checker->records->n; i++) {
        const struct history_record *r = &checker->records->at[i];
        bool had_acknowledged = r->value != 0 && hold->take->value != 0;

        if (r->kind == HISTORY_FAILOVER && !had_acknowledged && hold->take->to_ns > r->from_ns &&
            hold->take->from_ns < r->to_ns && to_ns > r->from_ns)
            return true;
    }
    return false;
}

/* The owner of the later one may have learned of its grant after the failover. */
bool checker_may_one_be_lost(const struct checker *checker, const struct attempt *one,
                             const struct attempt *other, uint64_t to_ns)
{
    return checker_may_be_lost(checker, one, to_ns) || checker_may_be_lost(checker, other, to_ns);
}
