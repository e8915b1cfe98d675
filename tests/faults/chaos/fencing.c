/*
 * Tokens of a fenced lock: they grow in the order of the holds, and are the same at all levels.
 *
 * The order of the grants is known of two that were both certain, for they were not at once: it is
 * that in which they were taken. Of others it is known when one was asked for after the other had
 * been taken. Where it is not known the tokens must differ still.
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

/* Against those before it, back to one that all further ones had to be smaller than. */
static void check_growth(struct checker *checker, size_t i)
{
    const struct attempt *at = checker->attempts.at, *hold = &at[i];

    while (i-- > 0 && at[i].ask->lock == hold->ask->lock) {
        if (!can_follow(hold, &at[i]))
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
