/*
 * Exclusion: at most one holder at a time; on a read/write lock readers together, and a writer with
 * its own reads.
 */
#include "checker.h"

#include <relock.h>

/* The longest of the holds so far: of one lock, only these can conflict with a later one. */
struct furthest {
    const struct attempt *alone; /* the longest that is not a reader's */
    const struct attempt *reader;
};

static void check_against(struct checker *checker, const struct attempt *before,
                          const struct attempt *hold)
{
    if (!before || !attempt_excludes(before, hold) ||
        attempt_certain_until_ns(before) <= hold->take->to_ns)
        return;
    if (checker_may_one_be_lost(checker, before, hold, hold->take->to_ns)) {
        checker->report->n_doubles_after_loss++;
        return;
    }
    checker_report(checker, CHECK_TWO_HOLDERS, before->last, hold->take);
    checker_tell(checker, CHECK_TWO_HOLDERS, before->leave);
    checker_tell(checker, CHECK_TWO_HOLDERS, hold->first);
}

/* In the order of the grants. */
static void check_two_holders(struct checker *checker)
{
    struct furthest furthest = {0};
    int lock = -1;

    for (size_t i = 0; i < checker->attempts.n; i++) {
        const struct attempt *hold = &checker->attempts.at[i];
        const struct attempt **same =
            hold->ask->sort == HISTORY_READ ? &furthest.reader : &furthest.alone;

        if (!attempt_is_certain(hold))
            continue;
        if (hold->ask->lock != lock)
            furthest = (struct furthest){0};
        lock = hold->ask->lock;
        check_against(checker, furthest.alone, hold);
        check_against(checker, furthest.reader, hold);
        if (!*same || attempt_certain_until_ns(*same) < attempt_certain_until_ns(hold))
            *same = hold;
    }
}

/* Asked for and granted, or claimed to be certain, between the grant and the release of this
 * hold. */
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
            if (!attempt_excludes(hold, other) || !was_taken_within(other, hold) ||
                checker_may_one_be_lost(checker, hold, other, hold->leave->to_ns))
                continue;
            checker_report(checker, CHECK_OK_THOUGH_TAKEN, hold->take, other->take);
            checker_tell(checker, CHECK_OK_THOUGH_TAKEN, hold->left);
        }
    }
}

void check_exclusion(struct checker *checker)
{
    check_two_holders(checker);
    check_released_holds(checker);
}
