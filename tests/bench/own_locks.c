#include "bare.h"
#include "crowd.h"
#include "rows.h"

/* More connections than this a bare program would hardly hold. */
#define BARE_MAX 200
#define THREADS_MAX 256

struct bare_thread {
    struct redisContext *redis;
    struct bare_lock lock;
};

static const struct size {
    unsigned n_threads;
    const char *id;
    double target;
} sizes[] = {
    {4, "own_locks_4", 1.2},
    {16, "own_locks_16", 1.2},
    {64, "own_locks_64", 1.6},
    {THREADS_MAX, "own_locks_256", 2.1},
};

static void ours_pair(void *arg)
{
    struct relock_lock **lock = arg;

    ours_take(*lock);
    ours_give(*lock);
}

static void bare_pair(void *arg)
{
    struct bare_thread *thread = arg;

    if (!bare_take(thread->redis, &thread->lock))
        die("%s is held by another", thread->lock.name);
    bare_give(thread->redis, &thread->lock);
}

static void measure(const struct plan *plan, const struct size *size, struct relock_lock **locks,
                    struct bare_thread *threads, struct report *report)
{
    struct result *result = report_add(report, size->id, "pairs/s", HIGHER_IS_BETTER, size->target);
    unsigned n_bare = size->n_threads < BARE_MAX ? size->n_threads : BARE_MAX;

    snprintf(result->title, sizeof(result->title), "%u threads with a lock each", size->n_threads);
    result_add_line(result, "relock", "relock");
    result_add_line(result, "bare",
                    n_bare == size->n_threads ? "a bare connection each"
                                              : "200 threads, a bare connection each");
    for (unsigned round = 0; round < plan->rounds; round++) {
        struct crowd_count ours, bare;

        ours = crowd_run(size->n_threads, ours_pair, locks, sizeof(locks[0]), plan->seconds);
        bare = crowd_run(n_bare, bare_pair, threads, sizeof(threads[0]), plan->seconds);
        series_add(&result->lines[0].series, ours.per_second);
        series_add(&result->lines[1].series, bare.per_second);
    }
}

void row_own_locks(const struct plan *plan, struct report *report)
{
    static struct bare_thread threads[BARE_MAX];
    struct relock_lock *locks[THREADS_MAX];
    struct relock_client *client = ours_client(plan->url);
    char name[NAME_MAX_LEN];

    for (unsigned i = 0; i < THREADS_MAX; i++) {
        row_name(name, "ours", i);
        locks[i] = ours_lock(client, name);
    }
    for (unsigned i = 0; i < BARE_MAX; i++) {
        row_name(name, "bare", i);
        threads[i].redis = bare_connect(plan->url);
        bare_lock_init(&threads[i].lock, name, i + 1);
    }

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        measure(plan, &sizes[i], locks, threads, report);

    for (unsigned i = 0; i < THREADS_MAX; i++) {
        must_be_gone(threads[0].redis, relock_lock_name(locks[i]));
        relock_lock_free(locks[i]);
    }
    relock_client_free(client);
    for (unsigned i = 0; i < BARE_MAX; i++)
        bare_close(threads[i].redis);
}
