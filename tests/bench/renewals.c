/*
 * What renewals cost the server, and calls beside them.
 *
 * One client holds many locks, and its watchdog renews them. The lease is such that RATE of them
 * are renewed in a second, and at least LEASE_MIN_MS. The server's processor time is that of INFO,
 * less what the server needs in as much time without locks. The client's is that of its threads,
 * while the main thread sleeps. Then one thread acquires and releases another lock all the time.
 *
 * The bare counterpart of that thread has a bare program beside it, which renews as many locks as
 * often, TURN of them by one script, at even times.
 */
#include "bare.h"
#include "rows.h"
#include "usage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define RATE 20000
#define LEASE_MIN_MS 3000
#define INTERVAL_PART(lease_ms) ((lease_ms)*3 / 10)

/* Renewals come in waves, as the locks were acquired. */
#define INTERVALS 2

#define MANY 1000000
#define TURN 32

enum {
    SERVER,
    CLIENT,
    RENEWED,
    LOST,
    SHARE,
    BESIDE_P50,
    ALONE_P50,
    BESIDE_P99,
    ALONE_P99,
    BARE_BESIDE_P99,
    BARE_ALONE_P99,
};

struct held {
    struct relock_client *client;
    struct relock_lock **locks;
    unsigned n;
    uint64_t lease_ms;
};

/* Of the server, in microseconds. */
static double server_cpu_us(struct redisContext *redis)
{
    char *info = bare_info(redis, "cpu");
    const char *user = strstr(info, "used_cpu_user:");
    const char *sys = strstr(info, "used_cpu_sys:");
    double us;

    if (!user || !sys)
        die("INFO cpu does not tell the processor time");
    us = 1e6 * (strtod(strchr(user, ':') + 1, NULL) + strtod(strchr(sys, ':') + 1, NULL));
    free(info);
    return us;
}

/* Without other work, in microseconds per second. */
static double idle_us(struct redisContext *redis, double seconds)
{
    double from_us = server_cpu_us(redis);

    sleep_ns(seconds_to_ns(seconds));
    return (server_cpu_us(redis) - from_us) / seconds;
}

static void measure_pairs(struct relock_lock *lock, double seconds, struct line *p50,
                          struct line *p99)
{
    struct samples samples = {0};
    uint64_t until_ns = now_ns() + seconds_to_ns(seconds);

    while (now_ns() < until_ns) {
        uint64_t from_ns = now_ns();

        ours_take(lock);
        ours_give(lock);
        samples_add(&samples, now_ns() - from_ns);
    }
    series_add(&p50->series, samples_percentile_us(&samples, 50));
    series_add(&p99->series, samples_percentile_us(&samples, 99));
    samples_free(&samples);
}

static void hold(struct held *held)
{
    char name[NAME_MAX_LEN];

    for (unsigned i = 0; i < held->n; i++) {
        row_name(name, "held", i);
        held->locks[i] = ours_lock(held->client, name);
        ours_take(held->locks[i]);
    }
}

static void release(struct held *held)
{
    for (unsigned i = 0; i < held->n; i++) {
        (void)relock_unlock(held->locks[i]); /* a loss was counted */
        relock_lock_free(held->locks[i]);
    }
}

static void measure_renewals(struct redisContext *redis, const struct held *held, double upkeep_us,
                             struct line *lines)
{
    double seconds = INTERVALS * (double)INTERVAL_PART(held->lease_ms) / 1000;
    struct relock_stats before = ours_stats(held->client), after;
    double server_us = server_cpu_us(redis);
    uint64_t client_ns = usage_others_cpu_ns();
    uint64_t from_ns = now_ns();
    double took_us, n;

    sleep_ns(seconds_to_ns(seconds));
    server_us = server_cpu_us(redis) - server_us;
    client_ns = usage_others_cpu_ns() - client_ns;
    took_us = (double)(now_ns() - from_ns) / 1000;
    after = ours_stats(held->client);
    n = (double)(after.renewed - before.renewed);
    if (n == 0)
        die("nothing was renewed");
    server_us -= upkeep_us * took_us / 1e6;
    series_add(&lines[SERVER].series, server_us > 0 ? server_us / n : 0);
    series_add(&lines[CLIENT].series, (double)client_ns / 1000 / n);
    series_add(&lines[RENEWED].series, n / held->n);
    series_add(&lines[LOST].series, (double)after.lost);
    series_add(&lines[SHARE].series, server_us > 0 ? 100 * server_us / took_us : 0);
}

/* ---- the bare counterpart ------------------------------------------------------------------ */

struct renewer {
    const char *url;
    unsigned n;
    uint64_t lease_ms;
    atomic_bool is_over;
};

static void init_bare(struct bare_lock *lock, const struct renewer *renewer, unsigned i)
{
    char name[NAME_MAX_LEN];

    row_name(name, "bare", i);
    bare_lock_init(lock, name, i);
    bare_lock_lease(lock, renewer->lease_ms);
}

static void take_or_give_all(struct redisContext *redis, const struct renewer *renewer, bool takes)
{
    struct bare_lock lock;

    for (unsigned i = 0; i < renewer->n; i++) {
        init_bare(&lock, renewer, i);
        if (!takes)
            bare_give(redis, &lock);
        else if (!bare_take(redis, &lock))
            die("%s is held by another", lock.name);
    }
}

static void *renew(void *arg)
{
    struct renewer *renewer = arg;
    struct redisContext *redis = bare_connect(renewer->url);
    struct bare_lock locks[TURN];
    uint64_t interval_ns = INTERVAL_PART(renewer->lease_ms) * 1000000;
    uint64_t next_ns = now_ns();

    bare_track(redis);
    for (unsigned at = 0; !atomic_load(&renewer->is_over); at = (at + TURN) % renewer->n) {
        for (unsigned i = 0; i < TURN; i++)
            init_bare(&locks[i], renewer, (at + i) % renewer->n);
        bare_renew_many(redis, locks, TURN);
        next_ns += interval_ns * TURN / renewer->n;
        if (next_ns > now_ns())
            sleep_ns(next_ns - now_ns());
    }
    bare_close(redis);
    return NULL;
}

static double bare_pairs_p99(struct redisContext *redis, double seconds)
{
    struct samples samples = {0};
    uint64_t until_ns = now_ns() + seconds_to_ns(seconds);
    struct bare_lock lock;
    double p99;

    bare_lock_init(&lock, "bench:other:bare", 1);
    while (now_ns() < until_ns) {
        uint64_t from_ns = now_ns();

        if (!bare_take(redis, &lock))
            die("%s is held by another", lock.name);
        bare_give(redis, &lock);
        samples_add(&samples, now_ns() - from_ns);
    }
    p99 = samples_percentile_us(&samples, 99);
    samples_free(&samples);
    return p99;
}

static void run_bare(const struct plan *plan, struct redisContext *redis, const struct held *held,
                     struct line *lines)
{
    struct renewer renewer = {.url = plan->url, .n = held->n, .lease_ms = held->lease_ms};
    double seconds = plan->long_seconds / 2;
    pthread_t thread;

    series_add(&lines[BARE_ALONE_P99].series, bare_pairs_p99(redis, seconds));
    take_or_give_all(redis, &renewer, true);
    if (pthread_create(&thread, NULL, renew, &renewer) != 0)
        die("no thread");
    series_add(&lines[BARE_BESIDE_P99].series, bare_pairs_p99(redis, seconds));
    atomic_store(&renewer.is_over, true);
    pthread_join(thread, NULL);
    take_or_give_all(redis, &renewer, false);
}

/* ---- the row ------------------------------------------------------------------------------- */

static void run_round(const struct plan *plan, struct redisContext *redis, struct held *held,
                      struct line *lines)
{
    struct relock_options options = {.watchdog_timeout_ms = held->lease_ms};
    double seconds = plan->long_seconds / 2;
    double upkeep_us = idle_us(redis, seconds < 2 ? seconds : 2);
    struct relock_lock *other;
    char name[NAME_MAX_LEN];

    held->client = ours_client_with(plan->url, &options);
    row_name(name, "other", 0);
    other = ours_lock(held->client, name);
    measure_pairs(other, seconds, &lines[ALONE_P50], &lines[ALONE_P99]);
    hold(held);
    measure_renewals(redis, held, upkeep_us, lines);
    measure_pairs(other, seconds, &lines[BESIDE_P50], &lines[BESIDE_P99]);
    release(held);
    relock_lock_free(other);
    relock_client_free(held->client);
    run_bare(plan, redis, held, lines);
}

static struct result *add_result(struct report *report, const struct held *held, unsigned named)
{
    struct result *result;
    char id[32], title[96];

    snprintf(id, sizeof(id), "renewals_%u", named);
    snprintf(title, sizeof(title), "%u held locks are renewed", held->n);
    result = report_add(report, id, title);
    result_add_line(result, "server", "a renewal, processor time of the server", "us");
    result_add_line(result, "client", "a renewal, processor time of the client", "us");
    result_add_line(result, "renewed", "renewals of a lock meanwhile", "");
    result_add_line(result, "lost", "lost", "locks");
    result_add_line(result, "share", "the server is busy with renewals", "% of a core");
    result_add_line(result, "beside_p50", "lock+unlock beside them, p50", "us");
    result_add_line(result, "alone_p50", "lock+unlock without them, p50", "us");
    result_add_line(result, "beside_p99", "lock+unlock beside them, p99", "us");
    result_add_line(result, "alone_p99", "lock+unlock without them, p99", "us");
    result_add_line(result, "bare_beside_p99", "bare: lock+unlock beside as many, p99", "us");
    result_add_line(result, "bare_alone_p99", "bare: lock+unlock without them, p99", "us");
    result_add_limit(result, LOST, AT_MOST, 0);
    result_add_ratio(result, "lock+unlock beside renewals / without, p50", BESIDE_P50, ALONE_P50,
                     NO_TARGET, 0);
    result_add_ratio(result, "lock+unlock beside renewals / without, p99", BESIDE_P99, ALONE_P99,
                     AT_MOST, 1.2);
    result_add_ratio(result, "bare: lock+unlock beside renewals / without, p99", BARE_BESIDE_P99,
                     BARE_ALONE_P99, NO_TARGET, 0);
    return result;
}

static void measure(const struct plan *plan, struct report *report, unsigned n)
{
    struct held held = {.n = plan_size(plan, n)};
    struct redisContext *redis = bare_connect(plan->url);
    struct result *result;

    held.lease_ms = (uint64_t)held.n * 1000 / RATE * 10 / 3;
    if (held.lease_ms < LEASE_MIN_MS)
        held.lease_ms = LEASE_MIN_MS;
    held.locks = calloc(held.n, sizeof(held.locks[0]));
    if (!held.locks)
        die("out of memory");
    result = add_result(report, &held, n);
    for (unsigned round = 0; round < plan->long_rounds; round++)
        run_round(plan, redis, &held, result->lines);
    result_note(result, "one client, at a lease of %llu ms, for %d intervals between renewals",
                (unsigned long long)held.lease_ms, INTERVALS);
    free(held.locks);
    bare_close(redis);
}

void row_renewals(const struct plan *plan, struct report *report)
{
    measure(plan, report, 1000);
    measure(plan, report, 100000);
    if (plan->grid.whole)
        measure(plan, report, MANY);
}
