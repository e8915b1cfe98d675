#include "bare.h"
#include "rows.h"

/* Pairs of one side before the sides change */
#define SLICE 100
#define WARM_UP_NS 50000000

enum {
    OURS_P50,
    BARE_P50,
    OURS_P99,
    BARE_P99,
};

static void run_ours(struct relock_lock *lock, struct samples *samples)
{
    for (unsigned i = 0; i < SLICE; i++) {
        uint64_t from_ns = now_ns();

        ours_take(lock);
        ours_give(lock);
        samples_add(samples, now_ns() - from_ns);
    }
}

static void run_bare(struct redisContext *redis, const struct bare_lock *lock,
                     struct samples *samples)
{
    for (unsigned i = 0; i < SLICE; i++) {
        uint64_t from_ns = now_ns();

        if (!bare_take(redis, lock))
            die("%s is held by another", lock->name);
        bare_give(redis, lock);
        samples_add(samples, now_ns() - from_ns);
    }
}

static void run_both(struct relock_lock *lock, struct redisContext *redis,
                     const struct bare_lock *bare_lock, uint64_t until_ns, struct samples *ours,
                     struct samples *bare)
{
    samples_clear(ours);
    samples_clear(bare);
    do {
        run_ours(lock, ours);
        run_bare(redis, bare_lock, bare);
    } while (now_ns() < until_ns);
}

void row_uncontended(const struct plan *plan, struct report *report)
{
    struct result *result = report_add(report, "uncontended", "uncontended lock+unlock, 1 thread");
    struct samples ours = {0}, bare = {0};
    char ours_name[NAME_MAX_LEN], bare_name[NAME_MAX_LEN];
    struct relock_client *client = ours_client(plan->url);
    struct redisContext *redis = bare_connect(plan->url);
    struct bare_lock bare_lock;
    struct relock_lock *lock;

    result_add_line(result, "relock_p50", "relock, p50", "us");
    result_add_line(result, "bare_p50", "two bare EVALSHA, p50", "us");
    result_add_line(result, "relock_p99", "relock, p99", "us");
    result_add_line(result, "bare_p99", "two bare EVALSHA, p99", "us");
    result_add_ratio(result, "relock p50 / bare p50", OURS_P50, BARE_P50, AT_MOST, 1.05);
    result_add_ratio(result, "relock p99 / bare p99", OURS_P99, BARE_P99, NO_TARGET, 0);

    row_name(ours_name, "ours", 0);
    row_name(bare_name, "bare", 0);
    lock = ours_lock(client, ours_name);
    bare_lock_init(&bare_lock, bare_name, 1);

    run_both(lock, redis, &bare_lock, now_ns() + WARM_UP_NS, &ours, &bare);
    for (unsigned round = 0; round < plan->rounds; round++) {
        run_both(lock, redis, &bare_lock, now_ns() + seconds_to_ns(2 * plan->seconds), &ours,
                 &bare);
        series_add(&result->lines[OURS_P50].series, samples_percentile_us(&ours, 50));
        series_add(&result->lines[BARE_P50].series, samples_percentile_us(&bare, 50));
        series_add(&result->lines[OURS_P99].series, samples_percentile_us(&ours, 99));
        series_add(&result->lines[BARE_P99].series, samples_percentile_us(&bare, 99));
    }

    samples_free(&ours);
    samples_free(&bare);
    relock_lock_free(lock);
    relock_client_free(client);
    must_be_gone(redis, ours_name);
    must_be_gone(redis, bare_name);
    bare_close(redis);
}
