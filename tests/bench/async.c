/*
 * Asynchronous calls. First many of them wait for a lock that a bare connection holds,
 * and the row counts threads. Then one thread keeps as many pairs in progress as there are locks,
 * compared with a thread for each lock.
 */
#include "bare.h"
#include "crowd.h"
#include "rows.h"
#include "usage.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define N_CALLS 1000
#define LEASE_MS 60000 /* of the bare holder */
#define WITHIN_MS 60000

enum {
    THREADS,
    BYTES,
    ASYNC,
    BLOCKING,
    ASYNC_US,
    BLOCKING_US,
};

struct loop {
    struct relock_events *events;
    unsigned n_outstanding;
    uint64_t n_pairs;
    bool is_over;
};

struct job {
    struct loop *loop;
    struct relock_lock *lock;
};

/* Returns false at `until_ns`. */
static bool dispatch(const struct loop *loop, uint64_t until_ns)
{
    struct pollfd fd = {.fd = relock_events_fd(loop->events), .events = POLLIN};
    uint64_t now = now_ns();

    if (now >= until_ns)
        return false;
    if (poll(&fd, 1, (int)((until_ns - now) / 1000000) + 1) > 0)
        (void)relock_events_dispatch(loop->events);
    return true;
}

static void finish(struct loop *loop)
{
    uint64_t until_ns = now_ns() + (uint64_t)WITHIN_MS * 1000000;

    while (loop->n_outstanding > 0)
        if (!dispatch(loop, until_ns))
            die("%u calls have not ended", loop->n_outstanding);
}

/* ---- waits --------------------------------------------------------------------------------- */

static void count_cancelled(int result, const struct relock_grant *grant, void *arg)
{
    struct loop *loop = arg;

    (void)grant;
    if (result != RELOCK_CANCELLED)
        die("a wait that is cancelled: %s", relock_strerror(result));
    loop->n_outstanding--;
}

static void wait_for(struct relock_client *client, struct relock_lock *lock, unsigned n,
                     struct line *lines)
{
    struct loop loop = {0};
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    unsigned n_threads = usage_threads();
    size_t n_bytes = usage_memory();

    ours_must(relock_events_new(client, &loop.events), "a queue");
    ours_must(relock_cancel_new(&how.cancel), "a cancel");
    for (; loop.n_outstanding < n; loop.n_outstanding++)
        ours_must(relock_acquire_async(lock, &how, loop.events, count_cancelled, &loop), "acquire");
    ours_await_waiters(client, n);
    series_add(&lines[THREADS].series, (double)usage_threads() - n_threads);
    series_add(&lines[BYTES].series, (double)(usage_memory() - n_bytes) / n);

    relock_cancel_fire(how.cancel);
    finish(&loop);
    relock_events_free(loop.events);
    relock_cancel_free(how.cancel);
}

static void measure_waits(const struct plan *plan, struct redisContext *redis, unsigned n,
                          struct line *lines)
{
    struct relock_client *client = ours_client(plan->url);
    struct bare_lock holder;
    struct relock_lock *lock;
    char name[NAME_MAX_LEN];

    row_name(name, "held", 0);
    lock = ours_lock(client, name);
    bare_lock_init(&holder, name, 1);
    bare_lock_lease(&holder, LEASE_MS);
    for (unsigned round = 0; round < plan->rounds; round++) {
        if (!bare_take(redis, &holder))
            die("%s is held by another", name);
        wait_for(client, lock, n, lines);
        bare_give(redis, &holder);
    }
    relock_lock_free(lock);
    relock_client_free(client);
}

/* ---- pairs --------------------------------------------------------------------------------- */

static void begin(struct job *job);

static void released(int result, void *arg)
{
    struct job *job = arg;

    ours_must(result, "release");
    job->loop->n_pairs++;
    job->loop->n_outstanding--;
    if (!job->loop->is_over)
        begin(job);
}

static void acquired(int result, const struct relock_grant *grant, void *arg)
{
    struct job *job = arg;

    ours_must(result, "acquire");
    ours_must(relock_release_async(job->lock, grant->owner, job->loop->events, released, job),
              "release");
}

static void begin(struct job *job)
{
    static const struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    ours_must(relock_acquire_async(job->lock, &how, job->loop->events, acquired, job), "acquire");
    job->loop->n_outstanding++;
}

struct rate {
    double per_second, cpu_us;
};

static struct rate rate_of(uint64_t n, uint64_t ns, uint64_t cpu_ns)
{
    return (struct rate){(double)n * 1e9 / (double)ns, (double)cpu_ns / 1000 / (double)n};
}

/* As crowd_run(): the measurement begins when each job has completed a pair. */
static struct rate run_async(struct loop *loop, struct job *jobs, unsigned n, double seconds)
{
    uint64_t from_ns, from_cpu_ns, n_pairs;
    struct rate rate;

    *loop = (struct loop){.events = loop->events};
    for (unsigned i = 0; i < n; i++)
        begin(&jobs[i]);
    while (loop->n_pairs < n)
        (void)dispatch(loop, UINT64_MAX);
    from_ns = now_ns();
    from_cpu_ns = usage_process_cpu_ns(getpid());
    n_pairs = loop->n_pairs;
    while (dispatch(loop, from_ns + seconds_to_ns(seconds)))
        continue;
    rate = rate_of(loop->n_pairs - n_pairs, now_ns() - from_ns,
                   usage_process_cpu_ns(getpid()) - from_cpu_ns);
    loop->is_over = true;
    finish(loop);
    return rate;
}

static void block(void *arg)
{
    const struct job *job = arg;

    ours_take(job->lock);
    ours_give(job->lock);
}

/* The processor time contains the start and the end of the threads, and so do its pairs. */
static struct rate run_threads(struct job *jobs, unsigned n, double seconds)
{
    uint64_t from_cpu_ns = usage_process_cpu_ns(getpid());
    struct crowd_count count = crowd_run(n, block, jobs, sizeof(jobs[0]), seconds);
    double cpu_ns = (double)(usage_process_cpu_ns(getpid()) - from_cpu_ns);

    return (struct rate){count.per_second, cpu_ns / 1000 / (double)count.steps};
}

static void add(struct line *lines, unsigned pairs, unsigned cpu, struct rate rate)
{
    series_add(&lines[pairs].series, rate.per_second);
    series_add(&lines[cpu].series, rate.cpu_us);
}

static void measure_pairs(const struct plan *plan, struct redisContext *redis, unsigned n,
                          struct line *lines)
{
    struct relock_client *client = ours_client(plan->url);
    struct job *jobs = calloc(n, sizeof(*jobs));
    struct loop loop = {0};
    char name[NAME_MAX_LEN];

    if (!jobs)
        die("out of memory");
    ours_must(relock_events_new(client, &loop.events), "a queue");
    for (unsigned i = 0; i < n; i++) {
        row_name(name, "async", i);
        jobs[i] = (struct job){&loop, ours_lock(client, name)};
    }
    (void)run_async(&loop, jobs, n, plan->seconds / 4); /* warms up */
    (void)run_threads(jobs, n, plan->seconds / 4);
    for (unsigned round = 0; round < plan->rounds; round++) {
        add(lines, ASYNC, ASYNC_US, run_async(&loop, jobs, n, plan->seconds));
        add(lines, BLOCKING, BLOCKING_US, run_threads(jobs, n, plan->seconds));
    }
    for (unsigned i = 0; i < n; i++) {
        must_be_gone(redis, relock_lock_name(jobs[i].lock));
        relock_lock_free(jobs[i].lock);
    }
    relock_events_free(loop.events);
    relock_client_free(client);
    free(jobs);
}

/* ---- the row ------------------------------------------------------------------------------- */

void row_async(const struct plan *plan, struct report *report)
{
    struct redisContext *redis = bare_connect(plan->url);
    unsigned n = plan_size(plan, N_CALLS);
    struct result *result;
    char title[96];

    snprintf(title, sizeof(title), "%u asynchronous calls", n);
    result = report_add(report, "async", title);
    result_add_line(result, "threads", "threads that as many waits add", "threads");
    result_add_line(result, "bytes", "memory of a wait", "bytes");
    result_add_line(result, "async", "one thread, a lock for each call", "pairs/s");
    result_add_line(result, "blocking", "a thread for each lock", "pairs/s");
    result_add_line(result, "async_us", "one thread: processor time of a pair", "us");
    result_add_line(result, "blocking_us", "a thread for each lock: processor time of a pair",
                    "us");
    result_add_limit(result, THREADS, AT_MOST, 0);
    result_add_ratio(result, "one thread / a thread for each lock, pairs/s", ASYNC, BLOCKING,
                     NO_TARGET, 0);
    measure_waits(plan, redis, n, result->lines);
    measure_pairs(plan, redis, n, result->lines);
    bare_close(redis);
}
