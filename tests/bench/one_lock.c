#include "bare.h"
#include "crowd.h"
#include "fair_mutex.h"
#include "rows.h"

#define N_THREADS 8
#define UNIT "acquisitions/s"

enum {
    OURS,
    ALONE,
    FAIR,
};

/* The counter that each lock guards: two threads inside at once would lose a count. */
struct guarded {
    struct relock_lock *lock;
    struct redisContext *redis;
    struct bare_lock bare;
    struct fair_mutex fair;
    uint64_t passages;
};

struct fair_thread {
    struct guarded *guarded;
    struct fair_waiter waiter;
};

/* Acquisitions, by their source. */
struct sources {
    uint64_t handed_off;
    uint64_t acquired;
};

static void pass_ours(void *arg)
{
    struct guarded *guarded = arg;

    ours_take(guarded->lock);
    guarded->passages++;
    ours_give(guarded->lock);
}

static void pass_bare(void *arg)
{
    struct guarded *guarded = arg;

    if (!bare_take(guarded->redis, &guarded->bare))
        die("%s is held by another", guarded->bare.name);
    guarded->passages++;
    bare_give(guarded->redis, &guarded->bare);
}

static void pass_fair(void *arg)
{
    struct fair_thread *thread = arg;

    fair_mutex_lock(&thread->guarded->fair, &thread->waiter);
    thread->guarded->passages++;
    fair_mutex_unlock(&thread->guarded->fair);
}

static double checked(struct crowd_count count, struct guarded *guarded, const char *what)
{
    if (count.steps != guarded->passages)
        die("%s: %llu passages, of which the lock saw %llu", what, (unsigned long long)count.steps,
            (unsigned long long)guarded->passages);
    guarded->passages = 0;
    return count.per_second;
}

static double run_ours(struct guarded *guarded, double seconds)
{
    return checked(crowd_run(N_THREADS, pass_ours, guarded, 0, seconds), guarded, "relock");
}

static double run_bare(struct guarded *guarded, double seconds)
{
    return checked(crowd_run(1, pass_bare, guarded, 0, seconds), guarded, "bare");
}

/* Counts hand-offs and acquisitions from Redis separately. */
static double run_ours_counted(struct guarded *guarded, struct relock_client *client,
                               double seconds, struct sources *sources)
{
    struct relock_stats before = ours_stats(client);
    double per_second = run_ours(guarded, seconds);
    struct relock_stats after = ours_stats(client);

    sources->handed_off += after.passed_on - before.passed_on;
    sources->acquired += after.acquired - before.acquired;
    return per_second;
}

static double run_fair(struct guarded *guarded, double seconds)
{
    struct fair_thread threads[N_THREADS];
    struct crowd_count count;

    for (unsigned i = 0; i < N_THREADS; i++) {
        threads[i].guarded = guarded;
        fair_waiter_init(&threads[i].waiter);
    }
    count = crowd_run(N_THREADS, pass_fair, threads, sizeof(threads[0]), seconds);
    for (unsigned i = 0; i < N_THREADS; i++)
        fair_waiter_deinit(&threads[i].waiter);
    return checked(count, guarded, "fair mutex");
}

void row_one_lock(const struct plan *plan, struct report *report)
{
    static struct guarded guarded;
    struct sources sources = {0};
    struct result *result = report_add(report, "one_lock", "8 threads on one lock");
    struct relock_client *client = ours_client(plan->url);
    char name[NAME_MAX_LEN];

    result_add_line(result, "relock", "relock, 8 threads", UNIT);
    result_add_line(result, "alone", "1 thread with a bare connection", UNIT);
    result_add_line(result, "fair", "bare first-come mutex without Redis, 8 threads", UNIT);
    result_add_ratio(result, "8 threads / 1 bare thread", OURS, ALONE, AT_LEAST, 8);
    result_add_ratio(result, "relock / bare mutex", OURS, FAIR, AT_LEAST, 0.7);

    row_name(name, "one", 0);
    guarded.lock = ours_lock(client, name);
    guarded.redis = bare_connect(plan->url);
    bare_lock_init(&guarded.bare, name, 1);
    fair_mutex_init(&guarded.fair);
    (void)run_ours(&guarded, plan->seconds); /* warms up */
    for (unsigned round = 0; round < plan->rounds; round++) {
        series_add(&result->lines[OURS].series,
                   run_ours_counted(&guarded, client, plan->seconds, &sources));
        series_add(&result->lines[ALONE].series, run_bare(&guarded, plan->seconds));
        series_add(&result->lines[FAIR].series, run_fair(&guarded, plan->seconds));
    }
    result_note(result, "acquisitions handed off without Redis: %.2f %%",
                100 * (double)sources.handed_off / (double)(sources.handed_off + sources.acquired));

    fair_mutex_deinit(&guarded.fair);
    relock_lock_free(guarded.lock);
    relock_client_free(client);
    must_be_gone(guarded.redis, name);
    bare_close(guarded.redis);
}
