/*
 * One client holds many locks and the watchdog renews them.
 *
 * The certain time of a hold shows the age of its last renewal: when the next one falls due, two
 * thirds of the lease remain, less the drift. If less remains, the renewal is late by the
 * difference. The bench checks all holds every SCAN_NS. The lease is shorter than the default, so
 * that the measurement contains several rounds of renewals. A renewal costs the same under any
 * lease, so the processor time at the default lease is the measured one divided by the ratio of the
 * two leases. It is the time of the I/O thread, the only other thread.
 *
 * The bare counterpart sends as many renewals of a lock, a hundred at once, and reads the answers.
 */
#include "bare.h"
#include "rows.h"
#include "usage.h"

#include <stdlib.h>

#define N_HOLDS 10000
#define N_PAIRS 500
#define BARE_BATCH 100
#define SCAN_NS 20000000
#define LATE_MS 100 /* after its due time */
#define LEASE_MIN_MS 1500
#define LEASE_DEFAULT_MS 30000.0

enum {
    LATE,
    LOST,
    LATEST,
    CPU,
    RENEWAL,
    BARE_RENEWAL,
    MEMORY,
    HANDLE_MEMORY,
    BESIDE_P50,
    ALONE_P50,
};

struct holds {
    struct relock_client *client;
    struct relock_lock **locks;
    bool *late;
    unsigned n;
    uint64_t lease_ms;
};

/* The results of one round. */
struct watched {
    uint64_t latest_ms;
    uint64_t renewed, lost;
    unsigned n_late;
    double cpu_ns, took_ns;
};

static void scan(const struct holds *holds, uint64_t due_ms, struct watched *watched)
{
    for (unsigned i = 0; i < holds->n; i++) {
        uint64_t valid_ms = relock_valid_ms(holds->locks[i]);
        uint64_t late_ms = valid_ms < due_ms ? due_ms - valid_ms : 0;

        if (late_ms > watched->latest_ms)
            watched->latest_ms = late_ms;
        if (late_ms > LATE_MS)
            holds->late[i] = true;
    }
}

static struct watched watch(const struct holds *holds, double seconds)
{
    uint64_t due_ms = holds->lease_ms - holds->lease_ms / 3 - holds->lease_ms / 100 - 2;
    struct relock_stats before = ours_stats(holds->client), after;
    uint64_t from_ns = now_ns(), cpu_ns = usage_others_cpu_ns();
    struct watched watched = {0};

    while (now_ns() - from_ns < seconds_to_ns(seconds)) {
        scan(holds, due_ms, &watched);
        sleep_ns(SCAN_NS);
    }
    after = ours_stats(holds->client);
    watched.cpu_ns = (double)(usage_others_cpu_ns() - cpu_ns);
    watched.took_ns = (double)(now_ns() - from_ns);
    watched.renewed = after.renewed - before.renewed;
    watched.lost = after.lost;
    for (unsigned i = 0; i < holds->n; i++)
        watched.n_late += holds->late[i];
    return watched;
}

static double pair_p50(struct relock_lock *lock)
{
    struct samples samples = {0};
    double p50;

    for (unsigned i = 0; i < N_PAIRS; i++) {
        uint64_t from_ns = now_ns();

        ours_take(lock);
        ours_give(lock);
        samples_add(&samples, now_ns() - from_ns);
    }
    p50 = samples_percentile_us(&samples, 50);
    samples_free(&samples);
    return p50;
}

/* Processor time in microseconds. */
static double cost_of_bare_renewal(struct redisContext *redis, unsigned n)
{
    struct bare_lock lock;
    char name[NAME_MAX_LEN];
    uint64_t cpu_ns;

    row_name(name, "bare", 0);
    bare_lock_init(&lock, name, 1);
    if (!bare_take(redis, &lock))
        die("%s is held by another", name);
    cpu_ns = usage_own_cpu_ns();
    for (unsigned i = 0; i < n; i += BARE_BATCH)
        bare_renew(redis, &lock, BARE_BATCH);
    cpu_ns = usage_own_cpu_ns() - cpu_ns;
    bare_give(redis, &lock);
    return (double)cpu_ns / 1000 / (double)((n + BARE_BATCH - 1) / BARE_BATCH * BARE_BATCH);
}

static void add_watched(struct line *lines, const struct holds *holds,
                        const struct watched *watched)
{
    double share = 100 * watched->cpu_ns / watched->took_ns;

    series_add(&lines[LATE].series, watched->n_late);
    series_add(&lines[LOST].series, (double)watched->lost);
    series_add(&lines[LATEST].series, (double)watched->latest_ms);
    series_add(&lines[CPU].series, share * (double)holds->lease_ms / LEASE_DEFAULT_MS);
    series_add(&lines[RENEWAL].series,
               watched->renewed ? watched->cpu_ns / 1000 / (double)watched->renewed : 0);
}

static void run_round(const struct plan *plan, struct redisContext *redis, struct holds *holds,
                      struct line *lines)
{
    struct relock_options options = {.watchdog_timeout_ms = holds->lease_ms};
    struct relock_lock *other;
    size_t empty, with_handles;
    struct watched watched;
    char name[NAME_MAX_LEN];

    holds->client = ours_client_with(plan->url, &options);
    row_name(name, "other", 0);
    other = ours_lock(holds->client, name);
    series_add(&lines[ALONE_P50].series, pair_p50(other));

    empty = usage_memory();
    for (unsigned i = 0; i < holds->n; i++) {
        row_name(name, "held", i);
        holds->locks[i] = ours_lock(holds->client, name);
        holds->late[i] = false;
    }
    with_handles = usage_memory();
    for (unsigned i = 0; i < holds->n; i++)
        ours_take(holds->locks[i]);
    series_add(&lines[HANDLE_MEMORY].series, (double)(with_handles - empty) / holds->n);
    series_add(&lines[MEMORY].series, (double)(usage_memory() - empty) / holds->n);

    watched = watch(holds, plan->long_seconds > 2 ? plan->long_seconds : 2);
    add_watched(lines, holds, &watched);
    series_add(&lines[BESIDE_P50].series, pair_p50(other));
    series_add(&lines[BARE_RENEWAL].series, cost_of_bare_renewal(redis, holds->n));

    for (unsigned i = 0; i < holds->n; i++) {
        (void)relock_unlock(holds->locks[i]); /* a loss was counted */
        must_be_gone(redis, relock_lock_name(holds->locks[i]));
        relock_lock_free(holds->locks[i]);
    }
    relock_lock_free(other);
    relock_client_free(holds->client);
}

static struct result *add_result(struct report *report, const struct holds *holds)
{
    struct result *result;
    char title[96];

    snprintf(title, sizeof(title), "%u held locks", holds->n);
    result = report_add(report, "holds", title);
    result_add_line(result, "late", "renewed 100 ms after they were due, or later", "locks");
    result_add_line(result, "lost", "lost", "locks");
    result_add_line(result, "latest", "the latest renewal, after it was due", "ms");
    result_add_line(result, "cpu", "watchdog, at the default lease of 30 s", "% of a core");
    result_add_line(result, "renewal", "a renewal, processor time", "us");
    result_add_line(result, "bare_renewal", "a bare renewal, processor time", "us");
    result_add_line(result, "memory", "memory of a held lock with its handle", "bytes");
    result_add_line(result, "handle_memory", "of that, the handle", "bytes");
    result_add_line(result, "beside_p50", "lock+unlock while they are held, p50", "us");
    result_add_line(result, "alone_p50", "lock+unlock without them, p50", "us");
    result_add_limit(result, LATE, AT_MOST, 0);
    result_add_limit(result, LOST, AT_MOST, 0);
    result_add_limit(result, CPU, AT_MOST, 2);
    result_add_limit(result, MEMORY, AT_MOST, 400);
    result_add_ratio(result, "a renewal / a bare renewal", RENEWAL, BARE_RENEWAL, NO_TARGET, 0);
    result_add_ratio(result, "lock+unlock while they are held / without them", BESIDE_P50,
                     ALONE_P50, NO_TARGET, 0);
    return result;
}

void row_holds(const struct plan *plan, struct report *report)
{
    struct holds holds = {.n = plan_size(plan, N_HOLDS)};
    struct redisContext *redis = bare_connect(plan->url);
    struct result *result;

    holds.lease_ms = (uint64_t)(plan->long_seconds * 1000 * 3 / 4);
    if (holds.lease_ms < LEASE_MIN_MS)
        holds.lease_ms = LEASE_MIN_MS;
    holds.locks = calloc(holds.n, sizeof(holds.locks[0]));
    holds.late = calloc(holds.n, sizeof(holds.late[0]));
    if (!holds.locks || !holds.late)
        die("out of memory");
    result = add_result(report, &holds);
    for (unsigned round = 0; round < plan->long_rounds; round++)
        run_round(plan, redis, &holds, result->lines);
    result_note(result,
                "at a lease of %llu ms, each renewed every third of it, checked every %d ms; "
                "processor time divided by %.1f for 30 s",
                (unsigned long long)holds.lease_ms, SCAN_NS / 1000000,
                LEASE_DEFAULT_MS / (double)holds.lease_ms);

    free(holds.locks);
    free(holds.late);
    bare_close(redis);
}
