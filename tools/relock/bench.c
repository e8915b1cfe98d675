/* relock bench - how many acquires and releases a second, and how long one takes */
#include "clock.h"
#include "report.h"
#include "session.h"
#include "statuses.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DURATION_MS 3000
#define MOST_THREADS 256
#define KEPT 100000 /* times of each thread; later ones replace them in turn */
#define NAME_LEN 64

enum { BENCH_SHARED = ARGS_OWN, BENCH_THREADS = 't', BENCH_DURATION = 'd' };

struct bench {
    struct args args;
    unsigned n_threads;
    uint64_t duration_ms;
    bool is_shared;
    struct relock_client *client;
    atomic_bool is_over;
};

struct worker {
    struct bench *bench;
    struct relock_lock *lock;
    pthread_t thread;
    uint64_t n_pairs;
    uint32_t *took_us;
    int result;
};

static void read_options(struct bench *bench, int argc, char **argv)
{
    static const struct option known[] = {{"threads", required_argument, NULL, BENCH_THREADS},
                                          {"duration", required_argument, NULL, BENCH_DURATION},
                                          {"shared", no_argument, NULL, BENCH_SHARED},
                                          ARGS_JSON_OPTION,
                                          ARGS_OPTIONS};
    int letter;

    while ((letter = getopt_long(argc, argv, "t:d:" ARGS_LETTERS, known, NULL)) >= 0)
        if (letter == BENCH_THREADS)
            bench->n_threads = args_number(&bench->args, "--threads", optarg, MOST_THREADS);
        else if (letter == BENCH_DURATION)
            bench->duration_ms = args_duration(&bench->args, "--duration", optarg);
        else if (letter == BENCH_SHARED)
            bench->is_shared = true;
        else
            args_take(&bench->args, letter);
    if (optind < argc)
        args_refuse(&bench->args, "it takes no argument");
    if (bench->n_threads == 0)
        args_refuse(&bench->args, "--threads: at least 1");
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    do {
        uint64_t began_us = clock_us();

        worker->result = relock_lock(worker->lock);
        if (worker->result == RELOCK_OK)
            worker->result = relock_unlock(worker->lock);
        if (worker->result == RELOCK_OK)
            worker->took_us[worker->n_pairs++ % KEPT] = (uint32_t)(clock_us() - began_us);
    } while (!atomic_load(&worker->bench->is_over) && worker->result == RELOCK_OK);
    return NULL;
}

static int begin(struct worker *worker, struct bench *bench, unsigned n)
{
    char name[NAME_LEN];
    int r;

    (void)snprintf(name, sizeof(name), "relock:bench:%ld:%u", (long)getpid(),
                   bench->is_shared ? 0 : n);
    worker->bench = bench;
    worker->took_us = calloc(KEPT, sizeof(*worker->took_us));
    r = relock_lock_new(bench->client, name, &worker->lock);
    if (r == RELOCK_OK &&
        (!worker->took_us || pthread_create(&worker->thread, NULL, work, worker) != 0))
        r = RELOCK_E_NOMEM;
    return r;
}

static int run_workers(struct bench *bench, struct worker *workers)
{
    const struct timespec duration = {(time_t)(bench->duration_ms / 1000),
                                      (long)(bench->duration_ms % 1000) * 1000000};
    unsigned n = 0;
    int r = RELOCK_OK;

    while (n < bench->n_threads && r == RELOCK_OK) {
        r = begin(&workers[n], bench, n);
        n += r == RELOCK_OK;
    }
    if (r == RELOCK_OK)
        (void)nanosleep(&duration, NULL);
    atomic_store(&bench->is_over, true);
    for (unsigned i = 0; i < n; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        r = r == RELOCK_OK ? workers[i].result : r;
    }
    return r;
}

static int compare(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    return (first > second) - (first < second);
}

/* All times of all threads, sorted. The caller frees them. */
static uint32_t *sort_times(const struct bench *bench, const struct worker *workers, size_t *n)
{
    uint32_t *all = malloc((size_t)bench->n_threads * KEPT * sizeof(*all));

    *n = 0;
    for (unsigned i = 0; all && i < bench->n_threads; i++)
        for (uint64_t k = 0; k < workers[i].n_pairs && k < KEPT; k++)
            all[(*n)++] = workers[i].took_us[k];
    if (all)
        qsort(all, *n, sizeof(*all), compare);
    return all;
}

static int print(const struct bench *bench, const struct worker *workers, uint64_t took_us)
{
    static const struct column columns[] = {
        {"THREADS", "threads"}, {"PAIRS/S", "pairs_per_s"}, {"P50 US", "p50_us"},
        {"P99 US", "p99_us"},   {"MAX US", "max_us"},       {NULL, NULL},
    };
    struct report *report = report_new(columns, bench->args.is_json);
    uint64_t n_pairs = 0;
    size_t n;
    uint32_t *times = sort_times(bench, workers, &n);

    for (unsigned i = 0; i < bench->n_threads; i++)
        n_pairs += workers[i].n_pairs;
    if (!times) {
        report_free(report);
        return session_fail(&bench->args, "times", RELOCK_E_NOMEM);
    }
    report_number(report, bench->n_threads);
    report_number(report, (int64_t)(n_pairs * 1000000 / took_us));
    report_number(report, times[n / 2]);
    report_number(report, times[n * 99 / 100]);
    report_number(report, times[n - 1]);
    (void)report_print(report, false);
    report_free(report);
    free(times);
    return STATUS_OK;
}

static int run_bench(const struct command *self, int argc, char **argv)
{
    static struct worker workers[MOST_THREADS];
    struct bench bench = {.args = {.command = self}, .n_threads = 1, .duration_ms = DURATION_MS};
    uint64_t began_us;
    int r, status;

    read_options(&bench, argc, argv);
    bench.client = session_open(&bench.args, &(struct relock_options){0});
    began_us = clock_us();
    r = run_workers(&bench, workers);
    status = r == RELOCK_OK ? print(&bench, workers, clock_us() - began_us)
                            : session_fail(&bench.args, "stopped", r);
    for (unsigned i = 0; i < bench.n_threads; i++) {
        relock_lock_free(workers[i].lock);
        free(workers[i].took_us);
    }
    relock_client_free(bench.client);
    return status;
}

const struct command command_bench = {
    "bench",
    "measure acquires and releases of this server",
    "Usage: relock bench [OPTION]...\n"
    "Measures how many locks per second threads acquire and release, and how long a\n"
    "pair of the two calls takes, in us. This slows down other users of the server.\n"
    "The names of the locks begin with `relock:bench:`.\n"
    "  -t, --threads N           how many threads [1]\n"
    "  -d, --duration TIME       for how long [3s]\n"
    "      --shared              all threads use one lock, and hand it to each other\n"
    "                            [each uses a lock of its own]\n"
    "      --json                for programs\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             log to stderr what the library does\n"
    "Exit status: 0, or 125 if relock failed.\n",
    run_bench,
};
