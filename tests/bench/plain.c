/*
 * A bare connection holds a plain lock as redis-py does, and publishes nothing when it releases it.
 * The time runs from before that until a thread of the library, which has waited, has the lock. It
 * is compared with a reentrant lock that another client of the library releases, which publishes a
 * message.
 *
 * A pass counts if a report or a message ended the sleep of the waiter: on a busy machine the lock
 * may be released before it sleeps.
 */
#include "bare.h"
#include "counts.h"
#include "rows.h"

#include <pthread.h>

#define PASSES 100 /* in a round */
#define PAUSE_NS 3000000
#define RECHECK_MS 60000 /* later than any wait here ends */
#define QUIET_S 0.5      /* shorter rounds wait for a shorter time */
#define QUIET_NS 1000000000
#define SPARE_PASSES 100 /* on a slow machine, a waiter that is to be woken may not sleep yet */

enum { PLAIN_P50, PASSED_P50, PLAIN_P99, PASSED_P99, COMMANDS };

struct sides {
    struct relock_client *holds, *waits;
    struct redisContext *redis;
    struct relock_lock *reentrant, *theirs; /* of `holds`, and the same one of `waits` */
    struct relock_lock *plain;              /* of `waits` */
    char name[NAME_MAX_LEN];                /* of the plain lock */
    unsigned n_passes, n_woken;
};

static void give_plain(void *arg)
{
    const struct sides *sides = arg;

    bare_plain_give(sides->redis, sides->name);
}

static void give_reentrant(void *arg)
{
    const struct sides *sides = arg;

    ours_give(sides->reentrant);
}

static void pass(struct sides *sides, struct relock_lock *lock, void (*give)(void *),
                 struct samples *samples)
{
    uint64_t wakes = ours_stats(sides->waits).wakes;
    uint64_t took_ns = ours_time_pass(sides->waits, lock, PAUSE_NS, give, sides);

    sides->n_passes++;
    if (ours_stats(sides->waits).wakes != wakes + 1)
        return;
    samples_add(samples, took_ns);
    sides->n_woken++;
}

static void measure(struct sides *sides, unsigned n, struct samples *plain, struct samples *passed)
{
    samples_clear(plain);
    samples_clear(passed);
    for (unsigned i = 0; i < n || (i < n + SPARE_PASSES && (plain->n == 0 || passed->n == 0));
         i++) {
        bare_plain_take(sides->redis, sides->name);
        pass(sides, sides->plain, give_plain, plain);
        ours_take(sides->reentrant);
        pass(sides, sides->theirs, give_reentrant, passed);
    }
    if (plain->n == 0 || passed->n == 0)
        die("no waiter was woken");
}

/* ---- commands ------------------------------------------------------------------------------ */

static void *take_and_give(void *lock)
{
    ours_take(lock);
    ours_give(lock);
    return NULL;
}

/* Without pings, which depend on the time. */
static double count_waiting(struct sides *sides, uint64_t quiet_ns)
{
    struct counts before, meanwhile;
    pthread_t thread;

    bare_plain_take(sides->redis, sides->name);
    if (pthread_create(&thread, NULL, take_and_give, sides->plain) != 0)
        die("no thread");
    ours_await_waiters(sides->waits, 1);
    counts_settle(sides->redis);
    before = counts_now(sides->redis);
    sleep_ns(quiet_ns);
    meanwhile = counts_since(sides->redis, &before);
    bare_plain_give(sides->redis, sides->name);
    pthread_join(thread, NULL);
    return (double)(meanwhile.all - meanwhile.pings);
}

/* ---- the row ------------------------------------------------------------------------------- */

static struct result *add_result(struct report *report)
{
    struct result *result =
        report_add(report, "plain", "a plain lock released by another library -> acquired");

    result_add_line(result, "plain_p50", "a plain lock, released bare, p50", "us");
    result_add_line(result, "passed_p50", "a lock released by relock, p50", "us");
    result_add_line(result, "plain_p99", "a plain lock, released bare, p99", "us");
    result_add_line(result, "passed_p99", "a lock released by relock, p99", "us");
    result_add_line(result, "commands", "while it waits, without pings", "commands");
    result_add_ratio(result, "plain / passed", PLAIN_P50, PASSED_P50, AT_MOST, 2);
    result_add_limit(result, COMMANDS, AT_MOST, 0);
    return result;
}

static void open_sides(struct sides *sides, const char *url)
{
    struct relock_options options = {.recheck_ms = RECHECK_MS};
    char name[NAME_MAX_LEN];

    sides->holds = ours_client(url);
    sides->waits = ours_client_with(url, &options);
    sides->redis = bare_connect(url);
    row_name(sides->name, "plain", 0);
    ours_must(relock_plainlock_new(sides->waits, sides->name, &sides->plain), "handle");
    row_name(name, "passed", 0);
    sides->reentrant = ours_lock(sides->holds, name);
    sides->theirs = ours_lock(sides->waits, name);
}

static void close_sides(struct sides *sides)
{
    must_be_gone(sides->redis, sides->name);
    relock_lock_free(sides->plain);
    relock_lock_free(sides->theirs);
    relock_lock_free(sides->reentrant);
    relock_client_free(sides->waits);
    relock_client_free(sides->holds);
    bare_close(sides->redis);
}

void row_plain(const struct plan *plan, struct report *report)
{
    struct result *result = add_result(report);
    struct line *lines = result->lines;
    unsigned n = plan_size(plan, PASSES);
    uint64_t quiet_ns = plan->seconds < QUIET_S ? QUIET_NS / 10 : QUIET_NS;
    struct samples plain = {0}, passed = {0};
    struct sides sides = {0};

    open_sides(&sides, plan->url);
    (void)count_waiting(&sides, 0); /* has the library subscribe, and track */
    for (unsigned round = 0; round < plan->rounds; round++) {
        series_add(&lines[COMMANDS].series, count_waiting(&sides, quiet_ns));
        measure(&sides, n, &plain, &passed);
        series_add(&lines[PLAIN_P50].series, samples_percentile_us(&plain, 50));
        series_add(&lines[PLAIN_P99].series, samples_percentile_us(&plain, 99));
        series_add(&lines[PASSED_P50].series, samples_percentile_us(&passed, 50));
        series_add(&lines[PASSED_P99].series, samples_percentile_us(&passed, 99));
    }
    result_note(result, "passes in which the waiter was woken: %u of %u", sides.n_woken,
                sides.n_passes);
    samples_free(&plain);
    samples_free(&passed);
    close_sides(&sides);
}
