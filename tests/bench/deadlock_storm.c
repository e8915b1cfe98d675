/*
 * Two processes with eight threads each acquire two of four locks, half of the threads in one order
 * and half in the other. So owners of both wait for each other in cycles all the time. A thread
 * that is refused does what the tutorial says: it releases what it holds, pauses, longer each time,
 * and starts again. The row counts the pairs of locks that threads had, and compares this with one
 * process.
 *
 * Then the price of the search where it finds nothing: one thread holds a lock and waits for
 * another one, again and again, for as long as a thread of another process holds it. The row counts
 * commands for each such wait, with the search and without.
 */
#include "bare.h"
#include "counts.h"
#include "rows.h"
#include "support/child.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define N_PROCESSES 2
#define N_THREADS 8
#define N_LOCKS 4
#define PAUSE_MIN_NS 1000000
#define PAUSE_MAX_NS 64000000
#define END_MS 60000
#define TARGET_PER_S 300

/* Memory that all processes share. */
struct storm {
    const char *url;
    char names[N_LOCKS][NAME_MAX_LEN];
    atomic_bool is_over;
    struct {
        atomic_uint_fast64_t pairs, refused;
    } processes[N_PROCESSES];
};

struct place {
    struct storm *storm;
    unsigned process;
};

struct worker {
    pthread_t thread;
    struct storm *storm;
    unsigned process, seed;
    bool is_reverse;
    struct relock_lock **locks;
};

/* ---- the storm ------------------------------------------------------------------------------- */

/* From half of it to all of it, so that two do not meet again. */
static void pause_for(struct worker *worker, uint64_t ns)
{
    sleep_ns(ns / 2 + (uint64_t)rand_r(&worker->seed) % (ns / 2));
}

/* Acquires the first, and the second inside it. */
static void acquire_both(struct worker *worker, struct relock_lock *first,
                         struct relock_lock *second)
{
    uint64_t pause_ns = PAUSE_MIN_NS;
    int r;

    ours_take(first);
    while ((r = relock_lock(second)) == RELOCK_E_DEADLOCK) {
        atomic_fetch_add(&worker->storm->processes[worker->process].refused, 1);
        ours_give(first);
        pause_for(worker, pause_ns);
        pause_ns = pause_ns < PAUSE_MAX_NS ? 2 * pause_ns : pause_ns;
        ours_take(first);
    }
    ours_must(r, "the second lock");
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct storm *storm = worker->storm;

    while (!atomic_load(&storm->is_over)) {
        unsigned low = (unsigned)rand_r(&worker->seed) % (N_LOCKS - 1);
        unsigned high = low + 1 + (unsigned)rand_r(&worker->seed) % (N_LOCKS - 1 - low);
        struct relock_lock *first = worker->locks[worker->is_reverse ? high : low];
        struct relock_lock *second = worker->locks[worker->is_reverse ? low : high];

        acquire_both(worker, first, second);
        atomic_fetch_add(&storm->processes[worker->process].pairs, 1);
        ours_give(second);
        ours_give(first);
    }
    return NULL;
}

static int storm_on(struct child *parent, void *arg)
{
    struct place *place = arg;
    struct storm *storm = place->storm;
    struct relock_client *client =
        ours_client_with(storm->url, &(struct relock_options){.log_level = RELOCK_LOG_ERROR});
    struct relock_lock *locks[N_LOCKS];
    struct worker workers[N_THREADS];

    for (unsigned i = 0; i < N_LOCKS; i++)
        locks[i] = ours_lock(client, storm->names[i]);
    if (!child_send(parent, 0) || !child_await(parent))
        return EXIT_FAILURE;
    for (unsigned i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){.storm = storm,
                                     .process = place->process,
                                     .seed = place->process * N_THREADS + i,
                                     .is_reverse = i % 2 != 0,
                                     .locks = locks};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            die("no thread");
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < N_LOCKS; i++)
        relock_lock_free(locks[i]);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

static uint64_t pairs_of(struct storm *storm)
{
    return atomic_load(&storm->processes[0].pairs) + atomic_load(&storm->processes[1].pairs);
}

/* Returns the pairs per second of so many processes together. */
static double run_storm(struct storm *storm, unsigned n_processes, double seconds)
{
    struct child *children[N_PROCESSES];
    struct place places[N_PROCESSES];
    uint64_t from_ns, n;

    for (unsigned i = 0; i < N_LOCKS; i++)
        row_name(storm->names[i], "storm", i);
    atomic_store(&storm->is_over, false);
    for (unsigned i = 0; i < n_processes; i++) {
        places[i] = (struct place){storm, i};
        atomic_store(&storm->processes[i].pairs, 0);
        atomic_store(&storm->processes[i].refused, 0);
        children[i] = child_start(storm_on, &places[i]);
    }
    for (unsigned i = 0; i < n_processes; i++)
        if (!child_await(children[i]))
            die("a process does not come up");
    from_ns = now_ns();
    for (unsigned i = 0; i < n_processes; i++)
        (void)child_send(children[i], 0);
    sleep_ns(seconds_to_ns(seconds));
    n = pairs_of(storm);
    seconds = (double)(now_ns() - from_ns) / 1e9;
    atomic_store(&storm->is_over, true);
    for (unsigned i = 0; i < n_processes; i++)
        if (child_wait(children[i], END_MS) != EXIT_SUCCESS)
            die("a process failed");
    return (double)n / seconds;
}

static void measure_storm(const struct plan *plan, struct report *report)
{
    struct storm *storm =
        mmap(NULL, sizeof(*storm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct redisContext *redis = bare_connect(plan->url);
    struct result *result = report_add(report, "deadlock_storm",
                                       "two processes x 8 threads, 4 locks in opposite orders");
    double seconds = plan->long_seconds;

    if (storm == MAP_FAILED)
        die("out of memory");
    result_add_line(result, "pairs", "both together", "pairs/s");
    result_add_line(result, "least", "pairs of the process with fewer", "%");
    result_add_line(result, "refused", "RELOCK_E_DEADLOCK for each pair", "times");
    result_add_line(result, "commands", "commands for each pair", "commands");
    result_add_line(result, "one", "one process alone", "pairs/s");
    result_add_limit(result, 0, AT_LEAST, TARGET_PER_S);
    for (unsigned round = 0; round < plan->long_rounds; round++) {
        struct counts before = counts_now(redis), counts;
        double per_second, pairs, least;

        storm->url = plan->url;
        per_second = run_storm(storm, N_PROCESSES, seconds);
        counts = counts_since(redis, &before);
        pairs = (double)pairs_of(storm);
        least = (double)atomic_load(&storm->processes[0].pairs);
        least = least < pairs / 2 ? least : pairs - least;
        series_add(&result->lines[0].series, per_second);
        series_add(&result->lines[1].series, 100 * least / pairs);
        series_add(&result->lines[2].series, (double)(atomic_load(&storm->processes[0].refused) +
                                                      atomic_load(&storm->processes[1].refused)) /
                                                 pairs);
        series_add(&result->lines[3].series, (double)counts.all / pairs);
        series_add(&result->lines[4].series, run_storm(storm, 1, plan->seconds));
    }
    (void)bare_close(redis);
    munmap(storm, sizeof(*storm));
}

/* ---- the price of a wait --------------------------------------------------------------------- */

/* Holds the lock for so long, each time that the parent asks for it. */
struct holder {
    const char *url;
    char name[NAME_MAX_LEN];
    uint64_t hold_ns;
};

static int hold_on_request(struct child *parent, void *arg)
{
    struct holder *holder = arg;
    struct relock_client *client = ours_client(holder->url);
    struct relock_lock *lock = ours_lock(client, holder->name);
    int64_t goes_on;

    while (child_receive_within(parent, &goes_on, END_MS) && goes_on) {
        ours_take(lock);
        if (!child_send(parent, 0))
            return EXIT_FAILURE;
        sleep_ns(holder->hold_ns);
        ours_give(lock);
    }
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

/* Returns the commands for each of `n` waits, each inside of another lock. */
static double commands_of_waits(const struct plan *plan, struct redisContext *redis,
                                uint64_t hold_ns, unsigned n, uint64_t deadlock_ms)
{
    struct holder holder = {.url = plan->url, .hold_ns = hold_ns};
    struct relock_client *client;
    struct relock_lock *outer, *inner;
    struct counts before, counts;
    struct child *child;
    char name[NAME_MAX_LEN];

    row_name(name, "outer", 0);
    row_name(holder.name, "inner", 0);
    child = child_start(hold_on_request, &holder);
    client = ours_client_with(plan->url, &(struct relock_options){.deadlock_ms = deadlock_ms});
    outer = ours_lock(client, name);
    inner = ours_lock(client, holder.name);
    before = counts_now(redis);
    for (unsigned i = 0; i < n; i++) {
        ours_take(outer);
        if (!child_send(child, 1) || !child_await(child))
            die("the other process is gone");
        ours_take(inner);
        ours_give(inner);
        ours_give(outer);
    }
    counts = counts_since(redis, &before);
    if (!child_send(child, 0) || child_wait(child, END_MS) != EXIT_SUCCESS)
        die("the other process failed");
    relock_lock_free(outer);
    relock_lock_free(inner);
    relock_client_free(client);
    return (double)counts.all / n;
}

static void measure_price(const struct plan *plan, struct report *report)
{
    static const struct {
        unsigned hold_ms, n;
        const char *id, *what;
        enum target_kind kind;
    } waits[] = {
        {1, 200, "1", "waits of 1 ms: with the search / without it, more for each", AT_MOST},
        {10, 100, "10", "waits of 10 ms", AT_MOST},
        {50, 40, "50", "waits of 50 ms", AT_MOST},
        {200, 10, "200", "waits of 200 ms", NO_TARGET},
    };
    struct result *result =
        report_add(report, "deadlock_price", "a wait inside another lock: commands more for each");
    struct redisContext *redis = bare_connect(plan->url);

    for (unsigned i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
        result_add_line(result, waits[i].id, waits[i].what, "commands");
        if (waits[i].kind != NO_TARGET)
            result_add_limit(result, i, waits[i].kind, 1);
        for (unsigned round = 0; round < plan->long_rounds; round++) {
            unsigned n = plan_size(plan, waits[i].n);
            uint64_t hold_ns = waits[i].hold_ms * UINT64_C(1000000);
            double without = commands_of_waits(plan, redis, hold_ns, n, RELOCK_FOREVER);
            double with = commands_of_waits(plan, redis, hold_ns, n, 0);

            series_add(&result->lines[i].series, with - without);
        }
    }
    (void)bare_close(redis);
}

/* The rest of the row deadlock. */
void row_deadlock_storm(const struct plan *plan, struct report *report)
{
    measure_storm(plan, report);
    measure_price(plan, report);
}
