/*
 * What many names cost a cluster: of a client that waits for each of them, while another one holds
 * them, and of a client that keeps as many locks. The subscriptions of all clients, the memory of
 * the masters, and how soon all subscriptions are back after each connection for messages was
 * closed. Then the holder releases all names, and the waiter acquires and releases each. The
 * cluster is the row's own.
 */
#include "rows.h"
#include "support/cluster.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define MASTERS 3
#define NODE_TIMEOUT_MS 60000
#define N_NAMES 10000
#define KEEP_MS 600000

#define LOOK_NS 1000000
#define STEADY_NS UINT64_C(500000000)
#define WITHIN_NS UINT64_C(120000000000)

enum { EACH_SUBSCRIPTIONS, EACH_MEMORY, RECONNECT_MS, SERVED_US };
enum { KEPT, SUBSCRIPTIONS, KEPT_MEMORY, KEPT_RECONNECT_MS, STILL_KEPT };

struct names {
    struct cluster *cluster;
    struct relock_client *holder, *waiter;
    struct relock_lock **held, **wanted;
    struct relock_events *events;
    unsigned n;
    unsigned n_waiting; /* calls that have not ended, of the thread that dispatches */
};

/* ---- the masters ---------------------------------------------------------------------------- */

static unsigned long long sum(const char *text, const char *key)
{
    unsigned long long all = 0;

    for (const char *at = strstr(text, key); at; at = strstr(at + 1, key))
        all += strtoull(at + strlen(key), NULL, 10);
    return all;
}

/* Of all clients at all masters. */
static unsigned long long n_subscriptions(const struct cluster *cluster)
{
    unsigned long long all = 0;

    for (size_t i = 0; i < cluster->n; i++) {
        const char *clients = probe_text(cluster->node[i].probe, "CLIENT LIST TYPE pubsub");

        all += sum(clients, " sub=") + sum(clients, " ssub=");
    }
    return all;
}

static double memory_of(const struct cluster *cluster)
{
    unsigned long long all = 0;

    for (size_t i = 0; i < cluster->n; i++)
        all += sum(probe_text(cluster->node[i].probe, "INFO memory"), "\nused_memory:");
    return (double)all;
}

static void await_steady(const struct cluster *cluster)
{
    unsigned long long n = n_subscriptions(cluster);
    uint64_t since_ns = now_ns(), until_ns = since_ns + WITHIN_NS;

    while (now_ns() - since_ns < STEADY_NS) {
        if (now_ns() > until_ns)
            die("clients subscribe again and again");
        sleep_ns(LOOK_NS);
        if (n_subscriptions(cluster) == n)
            continue;
        n = n_subscriptions(cluster);
        since_ns = now_ns();
    }
}

/* Closes all connections for messages. Returns how long it took until all subscriptions were back,
 * in milliseconds. */
static double reconnect_ms(const struct cluster *cluster)
{
    unsigned long long n = n_subscriptions(cluster);
    uint64_t from_ns = now_ns();

    for (size_t i = 0; i < cluster->n; i++)
        (void)probe_int(cluster->node[i].probe, "CLIENT KILL TYPE pubsub");
    while (n_subscriptions(cluster) < n) {
        if (now_ns() - from_ns > WITHIN_NS)
            die("%llu of %llu subscriptions are back", n_subscriptions(cluster), n);
        sleep_ns(LOOK_NS);
    }
    return (double)(now_ns() - from_ns) / 1e6;
}

static void must_be_empty(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->n; i++)
        if (probe_n_keys(cluster->node[i].probe) != 0)
            die("a master still has keys");
}

/* ---- names that are waited for -------------------------------------------------------------- */

static void open_names(struct names *names, const char *url)
{
    char name[NAME_MAX_LEN];

    names->holder = ours_client(url);
    names->waiter = ours_client(url);
    names->held = calloc(names->n, sizeof(names->held[0]));
    names->wanted = calloc(names->n, sizeof(names->wanted[0]));
    if (!names->held || !names->wanted)
        die("out of memory");
    ours_must(relock_events_new(names->waiter, &names->events), "a queue");
    for (unsigned i = 0; i < names->n; i++) {
        row_name(name, "subscribed", i);
        names->held[i] = ours_lock(names->holder, name);
        names->wanted[i] = ours_lock(names->waiter, name);
        ours_take(names->held[i]);
    }
}

static void close_names(struct names *names)
{
    relock_events_free(names->events);
    for (unsigned i = 0; i < names->n; i++) {
        relock_lock_free(names->held[i]);
        relock_lock_free(names->wanted[i]);
    }
    relock_client_free(names->holder);
    relock_client_free(names->waiter);
    free(names->held);
    free(names->wanted);
}

struct call {
    struct names *names;
    struct relock_lock *lock;
};

static void released(int result, void *arg)
{
    struct names *names = arg;

    ours_must(result, "release");
    names->n_waiting--;
}

static void acquired(int result, const struct relock_grant *grant, void *arg)
{
    struct call *call = arg;
    struct names *names = call->names;

    ours_must(result, "acquire");
    ours_must(relock_release_async(call->lock, grant->owner, names->events, released, names),
              "release");
    free(call);
}

static void begin_waits(struct names *names)
{
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    for (; names->n_waiting < names->n; names->n_waiting++) {
        struct call *call = malloc(sizeof(*call));

        if (!call)
            die("out of memory");
        *call = (struct call){names, names->wanted[names->n_waiting]};
        ours_must(relock_acquire_async(call->lock, &how, names->events, acquired, call), "acquire");
    }
    ours_await_waiters(names->waiter, names->n);
}

/* In microseconds for each. */
static double serve_us(struct names *names)
{
    struct pollfd fd = {.fd = relock_events_fd(names->events), .events = POLLIN};
    uint64_t from_ns = now_ns();

    for (unsigned i = 0; i < names->n; i++)
        ours_give(names->held[i]);
    while (names->n_waiting > 0) {
        if (poll(&fd, 1, (int)(WITHIN_NS / 1000000)) <= 0)
            die("%u calls have not ended", names->n_waiting);
        (void)relock_events_dispatch(names->events);
    }
    return (double)(now_ns() - from_ns) / 1000 / names->n;
}

static void run_waits(struct cluster *cluster, unsigned n, struct line *lines)
{
    struct names names = {.cluster = cluster, .n = n};
    double subscriptions, memory;

    open_names(&names, cluster->url);
    await_steady(cluster);
    subscriptions = (double)n_subscriptions(cluster);
    memory = memory_of(cluster);
    begin_waits(&names);
    await_steady(cluster);
    series_add(&lines[EACH_SUBSCRIPTIONS].series,
               ((double)n_subscriptions(cluster) - subscriptions) / n);
    series_add(&lines[EACH_MEMORY].series, (memory_of(cluster) - memory) / n);
    series_add(&lines[RECONNECT_MS].series, reconnect_ms(cluster));
    series_add(&lines[SERVED_US].series, serve_us(&names));
    close_names(&names);
    must_be_empty(cluster);
}

static void measure_waits(const struct plan *plan, struct cluster *cluster, struct report *report)
{
    unsigned n = plan_size(plan, N_NAMES);
    struct result *result;
    char title[96];

    snprintf(title, sizeof(title), "a client that waits for %u names of a cluster", n);
    result = report_add(report, "subscriptions_waits", title);
    result_add_line(result, "each", "of each name", "subscriptions");
    result_add_line(result, "memory", "of the masters, for each name", "bytes");
    result_add_line(result, "reconnect", "its connections are closed -> all is subscribed", "ms");
    result_add_line(result, "served", "each is released, acquired and released", "us");
    for (unsigned round = 0; round < plan->long_rounds; round++)
        run_waits(cluster, n, result->lines);
}

/* ---- locks that are kept -------------------------------------------------------------------- */

static void keep_all(struct relock_client *client, unsigned n)
{
    char name[NAME_MAX_LEN];

    for (unsigned i = 0; i < n; i++) {
        struct relock_lock *lock;

        row_name(name, "subscribed", i);
        lock = ours_lock(client, name);
        ours_take(lock);
        ours_give(lock);
        relock_lock_free(lock);
    }
}

static void run_kept(struct cluster *cluster, unsigned n, struct line *lines)
{
    struct relock_client *client =
        ours_client_with(cluster->url, &(struct relock_options){.keep_ms = KEEP_MS});
    double memory;

    await_steady(cluster);
    memory = memory_of(cluster);
    keep_all(client, n);
    await_steady(cluster);
    series_add(&lines[KEPT].series, (double)ours_stats(client).kept);
    series_add(&lines[SUBSCRIPTIONS].series, (double)n_subscriptions(cluster));
    series_add(&lines[KEPT_MEMORY].series, (memory_of(cluster) - memory) / n);
    series_add(&lines[KEPT_RECONNECT_MS].series, reconnect_ms(cluster));
    series_add(&lines[STILL_KEPT].series, (double)ours_stats(client).kept);
    relock_client_free(client);
    must_be_empty(cluster);
}

static void measure_kept(const struct plan *plan, struct cluster *cluster, struct report *report)
{
    unsigned n = plan_size(plan, N_NAMES);
    struct result *result;
    char title[96];

    snprintf(title, sizeof(title), "a client that keeps %u locks of a cluster", n);
    result = report_add(report, "subscriptions_kept", title);
    result_add_line(result, "kept", "after a pair of each", "kept locks");
    result_add_line(result, "all", "of the client", "subscriptions");
    result_add_line(result, "memory", "of the masters, for each name", "bytes");
    result_add_line(result, "reconnect", "its connections are closed -> all is subscribed", "ms");
    result_add_line(result, "still_kept", "after that", "kept locks");
    for (unsigned round = 0; round < plan->long_rounds; round++)
        run_kept(cluster, n, result->lines);
}

void row_subscriptions(const struct plan *plan, struct report *report)
{
    struct cluster *cluster = cluster_start(
        &(struct cluster_options){.masters = MASTERS, .node_timeout_ms = NODE_TIMEOUT_MS});

    if (!cluster) {
        result_note(report_add(report, "subscriptions_waits", "names of a cluster"),
                    "there is no server");
        return;
    }
    measure_waits(plan, cluster, report);
    measure_kept(plan, cluster, report);
    cluster_stop(cluster);
}
