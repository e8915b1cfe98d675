/*
 * Held locks are deleted, one after another, by a connection that knows nothing of locks. The time
 * runs from before DEL until on_lost is called. By then, Redis has reported the change, and a check
 * has found the lock gone.
 */
#include "bare.h"
#include "counts.h"
#include "rows.h"

#include <semaphore.h>

#define LOSSES 100 /* in a round */
#define PAUSE_NS 1000000
#define TARGET_MS 5

enum { P50, P99 };

struct hold {
    char name[NAME_MAX_LEN];
    struct relock_lock *lock;
    sem_t heard;
    uint64_t heard_ns;
};

static void on_lost(const struct relock_lost *what, void *arg)
{
    struct hold *hold = arg;

    (void)what;
    hold->heard_ns = now_ns();
    (void)sem_post(&hold->heard);
}

static void begin(struct hold *hold, struct relock_client *client, unsigned number)
{
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER, .on_lost = on_lost, .arg = hold};

    row_name(hold->name, "lost", number);
    hold->lock = ours_lock(client, hold->name);
    if (sem_init(&hold->heard, 0, 0) != 0)
        die("no semaphore");
    ours_must(relock_acquire(hold->lock, &how, NULL), "lock");
}

/* If Redis reports nothing, it takes until the next renewal, some seconds. */
static uint64_t lose(struct hold *hold, struct redisContext *redis)
{
    uint64_t from_ns;

    sleep_ns(PAUSE_NS);
    from_ns = now_ns();
    bare_delete(redis, hold->name);
    while (sem_wait(&hold->heard) != 0)
        continue;
    return hold->heard_ns - from_ns;
}

static void end(struct hold *hold)
{
    if (relock_unlock(hold->lock) != RELOCK_LOST)
        die("%s was not lost", hold->name);
    relock_lock_free(hold->lock);
    (void)sem_destroy(&hold->heard);
}

static struct result *add_result(struct report *report)
{
    struct result *result = report_add(report, "lost", "a held lock is deleted -> on_lost");

    result_add_line(result, "p50", "from DEL until on_lost, p50", "ms");
    result_add_line(result, "p99", "from DEL until on_lost, p99", "ms");
    result_add_limit(result, P99, AT_MOST, TARGET_MS);
    return result;
}

void row_lost(const struct plan *plan, struct report *report)
{
    static struct hold holds[LOSSES];
    struct line *lines = add_result(report)->lines;
    struct relock_options options = {.log_level = RELOCK_LOG_ERROR}; /* each loss is a warning */
    struct relock_client *client = ours_client_with(plan->url, &options);
    struct redisContext *redis = bare_connect(plan->url);
    unsigned n = plan_size(plan, LOSSES);
    struct samples samples = {0};

    for (unsigned round = 0; round < plan->rounds; round++) {
        for (unsigned i = 0; i < n; i++)
            begin(&holds[i], client, i);
        counts_settle(redis); /* until all are tracked, which they are after 100 ms */
        samples_clear(&samples);
        for (unsigned i = 0; i < n; i++)
            samples_add(&samples, lose(&holds[i], redis));
        for (unsigned i = 0; i < n; i++)
            end(&holds[i]);
        series_add(&lines[P50].series, samples_percentile_us(&samples, 50) / 1000);
        series_add(&lines[P99].series, samples_percentile_us(&samples, 99) / 1000);
    }
    samples_free(&samples);
    relock_client_free(client);
    bare_close(redis);
}
