/*
 * Tokens of a fenced lock: they grow in the order of the holds, and are the same at all levels.
 *
 * The order of two grants is known if both holds were certain, because they did not overlap: it is
 * the order of the grants. Otherwise it is known if one was asked for after the grant of the other.
 * If the order is unknown, the tokens must still differ.
 */
#include "checker.h"

#include <relock.h>

static bool is_known_to_follow(const struct attempt *hold, const struct attempt *before)
{
    return before->take->to_ns < hold->ask->from_ns ||
           (attempt_is_certain(before) && attempt_is_certain(hold));
}

static bool can_follow(const struct attempt *hold, const struct attempt *before)
{
    if (is_known_to_follow(hold, before))
        return hold->take->token > before->take->token;
    return hold->take->token != before->take->token;
}

/* Compares a hold with earlier ones, back to one that is known to follow all others. */
static void check_growth(struct checker *checker, size_t i)
{
    const struct attempt *at = checker->attempts.at, *hold = &at[i];

    while (i-- > 0 && at[i].ask->lock == hold->ask->lock) {
        if (!can_follow(hold, &at[i]) &&
            !checker_may_one_be_lost(checker, &at[i], hold, hold->take->to_ns))
            checker_report(checker, CHECK_TOKENS, at[i].take, hold->take);
        if (attempt_is_certain(&at[i]) && at[i].take->to_ns < hold->ask->from_ns)
            break;
    }
}

void check_tokens(struct checker *checker)
{
    for (size_t i = 0; i < checker->attempts.n; i++) {
        const struct attempt *hold = &checker->attempts.at[i];

        if (!attempt_is_hold(hold))
            continue;
        if (hold->other)
            checker_report(checker, CHECK_TOKENS, hold->take, hold->other);
        if (hold->ask->sort == HISTORY_FENCED)
            check_growth(checker, i);
    }
}
