/*
 * Permits of a semaphore: no more are out at a time than there are.
 *
 * A hold has its permits from its grant until it is no longer certain of them. If its release has
 * returned RELOCK_OK, it had them until that began, certain or not.
 */
#include "checker.h"
#include "names.h"

#include <relock.h>
#include <stdlib.h>

static uint64_t out_until_ns(const struct attempt *hold)
{
    bool is_whole = hold->left && hold->left->result == RELOCK_OK;

    return is_whole ? hold->leave->from_ns : attempt_certain_until_ns(hold);
}

/* The holds that have their permits. */
struct out {
    const struct attempt **holds;
    size_t n;
};

static void forget_ended(struct out *out, uint64_t now_ns)
{
    size_t n = 0;

    for (size_t i = 0; i < out->n; i++)
        if (out_until_ns(out->holds[i]) > now_ns)
            out->holds[n++] = out->holds[i];
    out->n = n;
}

/* All, and those that no failover can have taken away. */
static void sum(const struct checker *checker, const struct out *out, uint64_t now_ns,
                unsigned *n_all, unsigned *n_sure)
{
    *n_all = *n_sure = 0;
    for (size_t i = 0; i < out->n; i++) {
        unsigned n = out->holds[i]->ask->permits;

        *n_all += n;
        *n_sure += checker_may_be_lost(checker, out->holds[i], now_ns) ? 0 : n;
    }
}

static void check_sum(struct checker *checker, const struct out *out, uint64_t now_ns)
{
    unsigned n_all, n_sure;

    sum(checker, out, now_ns, &n_all, &n_sure);
    if (n_all <= NAMES_N_PERMITS)
        return;
    if (n_sure <= NAMES_N_PERMITS) {
        checker->report->n_doubles_after_loss++;
        return;
    }
    checker_report(checker, CHECK_TOO_MANY, NULL, NULL);
    for (size_t i = 0; i < out->n; i++) {
        checker_tell(checker, CHECK_TOO_MANY, out->holds[i]->take);
        checker_tell(checker, CHECK_TOO_MANY, out->holds[i]->last);
        checker_tell(checker, CHECK_TOO_MANY, out->holds[i]->left);
    }
}

/* In the order of the grants, as only a grant makes them more. */
void check_permits(struct checker *checker)
{
    const struct attempts *attempts = &checker->attempts;
    struct out out = {.holds = malloc((attempts->n + 1) * sizeof(*out.holds))};
    int lock = -1;

    if (!out.holds)
        abort();
    for (size_t i = 0; i < attempts->n; i++) {
        const struct attempt *hold = &attempts->at[i];

        if (hold->ask->sort != HISTORY_SEMAPHORE || !attempt_is_hold(hold) ||
            out_until_ns(hold) <= hold->take->to_ns)
            continue;
        if (hold->ask->lock != lock)
            out.n = 0;
        lock = hold->ask->lock;
        forget_ended(&out, hold->take->to_ns);
        out.holds[out.n++] = hold;
        check_sum(checker, &out, hold->take->to_ns);
    }
    free(out.holds);
}
