/*
 * Locks that stay with the process though nobody uses them (`keep_ms`): pairs from memory, and how
 * soon another client gets such a lock.
 */
#include "bare.h"
#include "crowd.h"
#include "rows.h"

#define KEEP_MS 1000
#define LONG_MS 60000
#define THREADS_MAX 64
#define RECALLS 100 /* in a round */
#define PAUSE_NS 1000000
#define WARM_NS 100000000 /* until the client hears recalls */

/* ---- pairs --------------------------------------------------------------------------------- */

struct thread {
    struct relock_lock *cached, *lock; /* of clients that keep locks, or not */
    struct redisContext *redis;
    struct bare_lock bare_lock;
};

static void cached_pair(void *arg)
{
    const struct thread *thread = arg;

    ours_take(thread->cached);
    ours_give(thread->cached);
}

static void plain_pair(void *arg)
{
    const struct thread *thread = arg;

    ours_take(thread->lock);
    ours_give(thread->lock);
}

static void bare_pair(void *arg)
{
    const struct thread *thread = arg;

    if (!bare_take(thread->redis, &thread->bare_lock))
        die("%s is held by another", thread->bare_lock.name);
    bare_give(thread->redis, &thread->bare_lock);
}

static void measure(const struct plan *plan, struct result *result, struct thread *threads,
                    unsigned n, crowd_step_fn *other)
{
    size_t size = sizeof(threads[0]);

    (void)crowd_run(n, cached_pair, threads, size, plan->seconds / 4); /* warms up */
    (void)crowd_run(n, other, threads, size, plan->seconds / 4);
    for (unsigned round = 0; round < plan->rounds; round++) {
        series_add(&result->lines[0].series,
                   crowd_run(n, cached_pair, threads, size, plan->seconds).per_second);
        series_add(&result->lines[1].series,
                   crowd_run(n, other, threads, size, plan->seconds).per_second);
        if (n > 1)
            series_add(&result->lines[2].series,
                       crowd_run(1, cached_pair, threads, size, plan->seconds).per_second);
    }
}

static void add_pairs(const struct plan *plan, struct report *report, struct thread *threads)
{
    struct result *one = plan_add(plan, report, "cached_1", "a lock that is kept, 1 thread");
    struct result *many;

    result_add_line(one, "cached", "kept for 1 s at a time", "pairs/s");
    result_add_line(one, "relock", "not kept", "pairs/s");
    result_add_ratio(one, "kept / not kept", 0, 1, AT_LEAST, 100);
    measure(plan, one, threads, 1, plain_pair);

    many = plan_add(plan, report, "cached_64", "64 threads with a kept lock each");
    result_add_line(many, "cached", "kept for 1 s at a time", "pairs/s");
    result_add_line(many, "bare", "a bare connection each", "pairs/s");
    result_add_line(many, "cached_1", "kept for 1 s at a time, 1 thread", "pairs/s");
    result_add_ratio(many, "kept / bare", 0, 1, AT_LEAST, 50);
    result_add_ratio(many, "64 threads / 1 thread, on two cores", 0, 2, AT_LEAST, 1.5);
    measure(plan, many, threads, THREADS_MAX, bare_pair);
}

static void measure_pairs(const struct plan *plan, struct report *report,
                          struct relock_client *keeps)
{
    static struct thread threads[THREADS_MAX];
    struct relock_client *client = ours_client(plan_url(plan));
    char name[NAME_MAX_LEN];

    for (unsigned i = 0; i < THREADS_MAX; i++) {
        row_name(name, "cached", i);
        threads[i].cached = ours_lock(keeps, name);
        row_name(name, "plain", i);
        threads[i].lock = ours_lock(client, name);
        row_name(name, "bare", i);
        threads[i].redis = bare_connect_owner(plan_url(plan), name);
        bare_lock_init(&threads[i].bare_lock, name, i + 1);
    }
    add_pairs(plan, report, threads);
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        relock_lock_free(threads[i].cached);
        relock_lock_free(threads[i].lock);
        bare_close(threads[i].redis);
    }
    relock_client_free(client);
}

void row_cached(const struct plan *plan, struct report *report)
{
    struct relock_client *keeps =
        ours_client_with(plan_url(plan), &(struct relock_options){.keep_ms = KEEP_MS});

    sleep_ns(WARM_NS);
    measure_pairs(plan, report, keeps);
    relock_client_free(keeps); /* and with it what it has kept */
}

/* ---- recalls ------------------------------------------------------------------------------- */

enum { RECALLED, PASSED, TRIP, CALL };

struct sides {
    struct relock_client *keeps, *holds, *waits;
    struct redisContext *redis;
    struct bare_lock trip; /* its name is of that server */
    unsigned n_names;
};

/* A lock is kept, and another client acquires it. Each time another one: after a recall, a lock is
 * not kept for a second. Returns how long the call took. */
static uint64_t recall(struct sides *sides)
{
    char name[NAME_MAX_LEN];
    struct relock_lock *ours, *theirs;
    uint64_t before = ours_stats(sides->keeps).recalled, from_ns;

    row_name(name, "recall", sides->n_names++);
    ours = ours_lock(sides->keeps, name);
    theirs = ours_lock(sides->waits, name);
    ours_take(ours);
    ours_give(ours);
    sleep_ns(PAUSE_NS); /* its threads fall asleep */
    from_ns = now_ns();
    ours_take(theirs);
    from_ns = now_ns() - from_ns;
    ours_give(theirs);
    if (ours_stats(sides->keeps).recalled != before + 1)
        die("%s was not recalled", name);
    relock_lock_free(ours);
    relock_lock_free(theirs);
    return from_ns;
}

static void give(void *lock)
{
    ours_give(lock);
}

/* From the release by one client until another one has the lock. */
static uint64_t pass(const struct sides *sides)
{
    char name[NAME_MAX_LEN];
    struct relock_lock *ours, *theirs;
    uint64_t took_ns;

    row_name(name, "pass", 0);
    ours = ours_lock(sides->holds, name);
    theirs = ours_lock(sides->waits, name);
    ours_take(ours);
    took_ns = ours_time_pass(sides->waits, theirs, PAUSE_NS, give, ours);
    relock_lock_free(theirs);
    relock_lock_free(ours);
    return took_ns;
}

static uint64_t trip(const struct sides *sides)
{
    uint64_t from_ns;

    sleep_ns(PAUSE_NS);
    from_ns = now_ns();
    if (!bare_take(sides->redis, &sides->trip))
        die("%s is held by another", sides->trip.name);
    from_ns = now_ns() - from_ns;
    bare_give(sides->redis, &sides->trip);
    return from_ns;
}

static struct result *add_recall(const struct plan *plan, struct report *report)
{
    struct result *result = plan_add(plan, report, "recall",
                                     "a lock that is kept, recalled -> acquired by another client");

    result_add_line(result, "recalled_p50", "the call less a round trip, p50", "us");
    result_add_line(result, "passed_p50", "passing a lock that is held, p50", "us");
    result_add_line(result, "trip_p50", "bare EVALSHA after a pause of 1 ms, p50", "us");
    result_add_line(result, "call_p50", "the call, whose first attempt recalls, p50", "us");
    result_add_ratio(result, "recalled / passed", RECALLED, PASSED, AT_MOST, 1.5);
    return result;
}

static void open_sides(struct sides *sides, const char *url)
{
    char name[NAME_MAX_LEN];

    sides->keeps = ours_client_with(url, &(struct relock_options){.keep_ms = LONG_MS});
    sides->holds = ours_client(url);
    sides->waits = ours_client(url);
    row_name(name, "trip", 0);
    bare_lock_init(&sides->trip, name, 1);
    sides->redis = bare_connect_owner(url, name);
    (void)pass(sides); /* opens the inbox of the waiter */
    sleep_ns(WARM_NS);
}

static void close_sides(struct sides *sides)
{
    relock_client_free(sides->keeps);
    relock_client_free(sides->holds);
    relock_client_free(sides->waits);
    bare_close(sides->redis);
}

void row_recall(const struct plan *plan, struct report *report)
{
    struct line *lines = add_recall(plan, report)->lines;
    struct samples calls = {0}, passes = {0}, trips = {0};
    struct sides sides = {0};

    open_sides(&sides, plan_url(plan));
    for (unsigned round = 0; round < plan->rounds; round++) {
        samples_clear(&calls);
        samples_clear(&passes);
        samples_clear(&trips);
        for (unsigned i = 0; i < plan_size(plan, RECALLS); i++) {
            samples_add(&calls, recall(&sides));
            samples_add(&passes, pass(&sides));
            samples_add(&trips, trip(&sides));
        }
        series_add(&lines[CALL].series, samples_percentile_us(&calls, 50));
        series_add(&lines[PASSED].series, samples_percentile_us(&passes, 50));
        series_add(&lines[TRIP].series, samples_percentile_us(&trips, 50));
        series_add(&lines[RECALLED].series,
                   samples_percentile_us(&calls, 50) - samples_percentile_us(&trips, 50));
    }
    samples_free(&calls);
    samples_free(&passes);
    samples_free(&trips);
    close_sides(&sides);
}
