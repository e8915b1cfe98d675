#include "bare.h"
#include "crowd.h"
#include "rows.h"

#include <string.h>

/* A bare program would hardly use more connections than this. */
#define BARE_MAX 200
#define THREADS_MAX 256

enum {
    OURS,
    BARE,
    OURS_P50,
    BARE_P50,
    OURS_P99,
    BARE_P99,
};

struct thread {
    struct relock_lock *lock; /* ours */
    struct redisContext *redis;
    struct bare_lock bare_lock;
    struct samples samples;
};

/* The sizes without a target are for the plot. */
static const struct size {
    unsigned n_threads;
    double target;
} sizes[] = {
    {1, 0}, {2, 0}, {4, 1.1}, {8, 0}, {16, 1.1}, {32, 0}, {64, 1.5}, {128, 0}, {THREADS_MAX, 1.6},
};

static void ours_pair(void *arg)
{
    struct thread *thread = arg;
    uint64_t from_ns = now_ns();

    ours_take(thread->lock);
    ours_give(thread->lock);
    samples_add(&thread->samples, now_ns() - from_ns);
}

static void bare_pair(void *arg)
{
    struct thread *thread = arg;
    uint64_t from_ns = now_ns();

    if (!bare_take(thread->redis, &thread->bare_lock))
        die("%s is held by another", thread->bare_lock.name);
    bare_give(thread->redis, &thread->bare_lock);
    samples_add(&thread->samples, now_ns() - from_ns);
}

/* The samples of all threads go into `all`. */
static double run(struct thread *threads, unsigned n_threads, crowd_step_fn *step, double seconds,
                  struct samples *all)
{
    struct crowd_count count;

    count = crowd_run(n_threads, step, threads, sizeof(threads[0]), seconds);
    samples_clear(all);
    for (unsigned i = 0; i < n_threads; i++) {
        samples_add_all(all, &threads[i].samples);
        samples_clear(&threads[i].samples);
    }
    return count.per_second;
}

static struct result *add_result(struct report *report, const struct size *size)
{
    struct result *result;
    char id[32], title[64];

    snprintf(id, sizeof(id), "own_locks_%u", size->n_threads);
    snprintf(title, sizeof(title), "%u thread%s with a lock each", size->n_threads,
             size->n_threads > 1 ? "s" : "");
    result = report_add(report, id, title);
    result_add_line(result, "relock", "relock", "pairs/s");
    result_add_line(result, "bare",
                    size->n_threads > BARE_MAX ? "200 threads, a bare connection each"
                                               : "a bare connection each",
                    "pairs/s");
    result_add_line(result, "relock_p50", "relock, p50 of a pair", "us");
    result_add_line(result, "bare_p50", "bare, p50 of a pair", "us");
    result_add_line(result, "relock_p99", "relock, p99 of a pair", "us");
    result_add_line(result, "bare_p99", "bare, p99 of a pair", "us");
    result_add_ratio(result, "relock / bare, pairs/s", OURS, BARE,
                     size->target > 0 ? AT_LEAST : NO_TARGET, size->target);
    return result;
}

static void measure(const struct plan *plan, const struct size *size, struct thread *threads,
                    struct report *report)
{
    unsigned n_bare = size->n_threads < BARE_MAX ? size->n_threads : BARE_MAX;
    struct line *lines = add_result(report, size)->lines;
    struct samples all = {0};

    (void)run(threads, size->n_threads, ours_pair, plan->seconds / 4, &all); /* warms up */
    (void)run(threads, n_bare, bare_pair, plan->seconds / 4, &all);
    for (unsigned round = 0; round < plan->rounds; round++) {
        series_add(&lines[OURS].series,
                   run(threads, size->n_threads, ours_pair, plan->seconds, &all));
        series_add(&lines[OURS_P50].series, samples_percentile_us(&all, 50));
        series_add(&lines[OURS_P99].series, samples_percentile_us(&all, 99));

        series_add(&lines[BARE].series, run(threads, n_bare, bare_pair, plan->seconds, &all));
        series_add(&lines[BARE_P50].series, samples_percentile_us(&all, 50));
        series_add(&lines[BARE_P99].series, samples_percentile_us(&all, 99));
    }
    samples_free(&all);
}

void row_own_locks(const struct plan *plan, struct report *report)
{
    static struct thread threads[THREADS_MAX];
    struct relock_client *client = ours_client(plan->url);
    struct redisContext *redis = bare_connect(plan->url);
    char name[NAME_MAX_LEN];

    memset(threads, 0, sizeof(threads));
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        row_name(name, "ours", i);
        threads[i].lock = ours_lock(client, name);
    }
    for (unsigned i = 0; i < BARE_MAX; i++) {
        row_name(name, "bare", i);
        threads[i].redis = bare_connect(plan->url);
        bare_lock_init(&threads[i].bare_lock, name, i + 1);
    }

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        measure(plan, &sizes[i], threads, report);

    for (unsigned i = 0; i < THREADS_MAX; i++) {
        must_be_gone(redis, relock_lock_name(threads[i].lock));
        relock_lock_free(threads[i].lock);
        bare_close(threads[i].redis);
        samples_free(&threads[i].samples);
    }
    relock_client_free(client);
    bare_close(redis);
}
