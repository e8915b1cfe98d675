/*
 * Threads of one process wait for a lock that a bare connection holds. All commands count, also
 * those of the client's own connections: from before the first thread starts until the time is
 * over, and then until each wait has timed out. Connections are made before, so commands that a
 * client sends once are not counted.
 */
#include "bare.h"
#include "counts.h"
#include "rows.h"

#include <pthread.h>
#include <stdlib.h>

#define STACK_SIZE (256 * 1024)
#define LONGER_MS 300   /* longer than the measurement, so that no waiter times out in it */
#define MARGIN_MS 60000 /* part of the lease: a client is made and warmed up in it first */
#define WARM_UP_NS UINT64_C(10000000000)
#define LOOK_NS 20000000

static const unsigned sizes[] = {1, 100, 1000};

struct waiter {
    pthread_t thread;
    struct relock_lock *lock;
    int64_t wait_ms;
    int result;
};

static void *wait_in_vain(void *arg)
{
    struct waiter *waiter = arg;

    waiter->result = relock_timedlock(waiter->lock, waiter->wait_ms);
    return NULL;
}

static void start_waiters(struct waiter *waiters, unsigned n, struct relock_lock *lock,
                          double seconds)
{
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    for (unsigned i = 0; i < n; i++) {
        waiters[i].lock = lock;
        waiters[i].wait_ms = (int64_t)(seconds * 1000) + LONGER_MS;
        if (pthread_create(&waiters[i].thread, &attr, wait_in_vain, &waiters[i]) != 0)
            die("no thread %u of %u", i + 1, n);
    }
    pthread_attr_destroy(&attr);
}

static void join_waiters(struct waiter *waiters, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        pthread_join(waiters[i].thread, NULL);
        if (waiters[i].result != RELOCK_TIMEOUT)
            die("a wait that must end by time: %s", relock_strerror(waiters[i].result));
    }
}

/* Waits once for another lock, until its subscription has ended. */
static void warm_up(struct redisContext *redis, struct relock_client *client)
{
    unsigned n_subscribers = bare_subscribers(redis);
    uint64_t until_ns = now_ns() + WARM_UP_NS;
    struct bare_lock holder;
    struct relock_lock *lock;
    char name[NAME_MAX_LEN];

    row_name(name, "warm", 0);
    lock = ours_lock(client, name);
    bare_lock_init(&holder, name, 1);
    if (!bare_take(redis, &holder))
        die("%s is held by another", name);
    if (relock_timedlock(lock, LONGER_MS) != RELOCK_TIMEOUT)
        die("%s is not held", name);
    bare_give(redis, &holder);
    while (bare_subscribers(redis) > n_subscribers && now_ns() < until_ns)
        sleep_ns(LOOK_NS);
    counts_settle(redis);
    relock_lock_free(lock);
}

struct waited {
    struct counts meanwhile, in_all;
};

static struct waited count_waiting(const struct plan *plan, struct redisContext *redis,
                                   const char *name, unsigned n)
{
    struct waiter *waiters = calloc(n, sizeof(*waiters));
    struct relock_client *client = ours_client(plan->url);
    struct relock_lock *lock = ours_lock(client, name);
    struct counts before;
    struct waited waited;
    uint64_t until_ns;

    if (!waiters)
        die("out of memory");
    warm_up(redis, client);
    before = counts_now(redis);
    until_ns = now_ns() + seconds_to_ns(plan->long_seconds);
    start_waiters(waiters, n, lock, plan->long_seconds);
    sleep_until_ns(until_ns);
    waited.meanwhile = counts_since(redis, &before);
    join_waiters(waiters, n);
    waited.in_all = counts_since(redis, &before);

    relock_lock_free(lock);
    relock_client_free(client);
    free(waiters);
    return waited;
}

static void measure(const struct plan *plan, struct redisContext *redis, unsigned n,
                    struct report *report)
{
    unsigned n_threads = n > 1 ? plan_size(plan, n) : 1;
    struct bare_lock holder;
    struct result *result;
    struct waited waited;
    char id[32], title[96], name[NAME_MAX_LEN];

    snprintf(id, sizeof(id), "waiting_%u", n);
    snprintf(title, sizeof(title), "%u thread%s of a process for %g s at a held lock", n_threads,
             n_threads > 1 ? "s" : "", plan->long_seconds);
    result = report_add(report, id, title);
    result_add_line(result, "commands", "commands that Redis receives in that time", "commands");
    result_add_line(result, "in_all", "the same, until the last wait has ended", "commands");
    result_add_limit(result, 0, AT_MOST, 4);

    row_name(name, "held", n);
    bare_lock_init(&holder, name, 1);
    bare_lock_lease(&holder, (uint64_t)(plan->long_seconds * 1000) + MARGIN_MS);
    for (unsigned round = 0; round < plan->long_rounds; round++) {
        if (!bare_take(redis, &holder))
            die("%s is held by another", name);
        waited = count_waiting(plan, redis, name, n_threads);
        bare_give(redis, &holder);
        series_add(&result->lines[0].series, (double)waited.meanwhile.all);
        series_add(&result->lines[1].series, (double)waited.in_all.all);
    }
    result_note(result, "of these: %llu scripts, %llu SUBSCRIBE, %llu PING",
                (unsigned long long)waited.in_all.scripts,
                (unsigned long long)waited.in_all.subscribes,
                (unsigned long long)waited.in_all.pings);
}

void row_waiting(const struct plan *plan, struct report *report)
{
    struct redisContext *redis = bare_connect(plan->url);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        measure(plan, redis, sizes[i], report);
    bare_close(redis);
}
