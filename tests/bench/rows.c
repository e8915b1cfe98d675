#include "rows.h"

#include "bare.h"
#include "support/cluster.h"

#include <pthread.h>
#include <unistd.h>

#define LOOK_NS 200000
#define PATIENCE_MS 10000 /* on a busy machine */
#define WAITERS_NS UINT64_C(60000000000)

unsigned plan_size(const struct plan *plan, unsigned n)
{
    return n / plan->shrink > 2 ? n / plan->shrink : 2;
}

const char *plan_url(const struct plan *plan)
{
    return plan->cluster ? plan->cluster->url : plan->url;
}

struct result *plan_add(const struct plan *plan, struct report *report, const char *id,
                        const char *title)
{
    char cluster_id[64], in_cluster[128];

    if (!plan->cluster)
        return report_add(report, id, title);
    snprintf(cluster_id, sizeof(cluster_id), "cluster_%s", id);
    snprintf(in_cluster, sizeof(in_cluster), "in a cluster: %s", title);
    return report_add(report, cluster_id, in_cluster);
}

void row_name(char name[NAME_MAX_LEN], const char *what, unsigned number)
{
    /* A child keeps the value of its parent. */
    static pid_t run;

    if (run == 0)
        run = getpid();
    snprintf(name, NAME_MAX_LEN, "relock-bench:%d:%s:%u", (int)run, what, number);
}

void ours_must(int result, const char *what)
{
    if (result != RELOCK_OK)
        die("%s: %s", what, relock_strerror(result));
}

struct relock_client *ours_client(const char *url)
{
    return ours_client_with(url, &(struct relock_options){0});
}

struct relock_client *ours_client_with(const char *url, const struct relock_options *options)
{
    struct relock_options with_url = *options;
    struct relock_client *client = NULL;

    with_url.url = url;
    with_url.connect_timeout_ms = PATIENCE_MS;
    with_url.command_timeout_ms = PATIENCE_MS;
    ours_must(relock_client_new(&with_url, &client), "client");
    return client;
}

struct relock_lock *ours_lock(struct relock_client *client, const char *name)
{
    struct relock_lock *lock = NULL;

    ours_must(relock_lock_new(client, name, &lock), "handle");
    return lock;
}

void ours_take(struct relock_lock *lock)
{
    ours_must(relock_lock(lock), "lock");
}

void ours_give(struct relock_lock *lock)
{
    ours_must(relock_unlock(lock), "unlock");
}

struct relock_stats ours_stats(struct relock_client *client)
{
    struct relock_stats stats;

    ours_must(relock_client_stats(client, &stats, sizeof(stats)), "stats");
    return stats;
}

void must_be_gone(struct redisContext *redis, const char *name)
{
    if (bare_exists(redis, name))
        die("%s is still there after its last release", name);
}

void ours_await_waiters(struct relock_client *client, unsigned n)
{
    uint64_t until_ns = now_ns() + WAITERS_NS;

    while (ours_stats(client).waiters != n) {
        if (now_ns() > until_ns)
            die("%llu calls wait instead of %u", (unsigned long long)ours_stats(client).waiters, n);
        sleep_ns(LOOK_NS);
    }
}

struct waiter {
    struct relock_lock *lock;
    uint64_t taken_ns;
};

static void *wait_once(void *arg)
{
    struct waiter *waiter = arg;

    ours_take(waiter->lock);
    waiter->taken_ns = now_ns();
    ours_give(waiter->lock);
    return NULL;
}

uint64_t ours_time_pass(struct relock_client *client, struct relock_lock *lock, uint64_t pause_ns,
                        void (*release)(void *arg), void *arg)
{
    struct waiter waiter = {.lock = lock};
    pthread_t thread;
    uint64_t from_ns;

    if (pthread_create(&thread, NULL, wait_once, &waiter) != 0)
        die("no thread");
    ours_await_waiters(client, 1);
    sleep_ns(pause_ns);
    from_ns = now_ns();
    release(arg);
    pthread_join(thread, NULL);
    return waiter.taken_ns - from_ns;
}
