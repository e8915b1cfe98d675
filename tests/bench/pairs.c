#include "pairs.h"

/* Pairs of one side before the sides change */
#define SLICE 100
#define WARM_UP_NS 50000000

enum {
    OURS_P50,
    BARE_P50,
    OURS_P99,
    BARE_P99,
};

void pair_ours(void *lock)
{
    ours_take(lock);
    ours_give(lock);
}

static void run(struct pair_side side, struct samples *samples)
{
    for (unsigned i = 0; i < SLICE; i++) {
        uint64_t from_ns = now_ns();

        side.run(side.arg);
        samples_add(samples, now_ns() - from_ns);
    }
}

static void run_both(struct pair_side ours, struct pair_side bare, uint64_t until_ns,
                     struct samples *of_ours, struct samples *of_bare)
{
    samples_clear(of_ours);
    samples_clear(of_bare);
    do {
        run(ours, of_ours);
        run(bare, of_bare);
    } while (now_ns() < until_ns);
}

void pairs_measure(const struct plan *plan, struct result *result, const char *bare_what,
                   struct pair_side ours, struct pair_side bare)
{
    struct samples of_ours = {0}, of_bare = {0};

    result_add_line(result, "relock_p50", "relock, p50", "us");
    result_add_line(result, "bare_p50", bare_what, "us");
    result_add_line(result, "relock_p99", "relock, p99", "us");
    result_add_line(result, "bare_p99", "the same, p99", "us");
    result_add_ratio(result, "relock p50 / bare p50", OURS_P50, BARE_P50, AT_MOST, 0.6);
    result_add_ratio(result, "relock p99 / bare p99", OURS_P99, BARE_P99, NO_TARGET, 0);

    run_both(ours, bare, now_ns() + WARM_UP_NS, &of_ours, &of_bare);
    for (unsigned round = 0; round < plan->rounds; round++) {
        run_both(ours, bare, now_ns() + seconds_to_ns(2 * plan->seconds), &of_ours, &of_bare);
        series_add(&result->lines[OURS_P50].series, samples_percentile_us(&of_ours, 50));
        series_add(&result->lines[BARE_P50].series, samples_percentile_us(&of_bare, 50));
        series_add(&result->lines[OURS_P99].series, samples_percentile_us(&of_ours, 99));
        series_add(&result->lines[BARE_P99].series, samples_percentile_us(&of_bare, 99));
    }
    samples_free(&of_ours);
    samples_free(&of_bare);
}
