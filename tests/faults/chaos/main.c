/*
 * Chaos: several processes acquire locks of all kinds while a schedule breaks servers, networks and
 * processes. A checker reads the histories that they wrote.
 *
 *     relock-chaos [--seed N] [--seconds S] [--processes P] [--threads T] [--red]
 *                  [--no-watchdog] [--forget] [--expect-two-holders]
 *
 * Prints the seed first. The same seed gives the same schedule; the threads' behaviour depends on
 * the machine. Ends with 0 if the histories are possible for a lock; with 1 and their folder if
 * not; with 77 if there is no server. With --no-watchdog the workers take short leases and ignore
 * their ends: the checker must find that, and --expect-two-holders makes it a success.
 *
 * With --red the locks are red locks on five servers, of which a minority is broken at a time. With
 * --forget no server breaks, but a majority loses all data at once, repeatedly while a lock is
 * held: the checker must find that, too, because a quorum cannot survive it.
 */
#include "check.h"
#include "stage.h"
#include "support/wait.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS 1000000
#define LEASE_MS 2500
#define STORM_MS 8000
#define CALM_MS 10000
#define SPIN_PAUSE_MS 128
#define PATIENCE_MS (3 * WORKER_RECHECK_MS)
#define ROUND_TRIP_MS 1000
#define RECOVERY_MS 2000
#define RED_SERVERS 5
#define FORGET_MS 100

struct arguments {
    uint64_t seed, seconds;
    int n_processes, n_threads;
    bool red, no_watchdog, forgets, expects_two_holders;
};

static void usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--seed N] [--seconds S] [--processes P] [--threads T] [--red]\n"
            "       [--no-watchdog] [--forget] [--expect-two-holders]\n",
            program);
    exit(EXIT_FAILURE);
}

static void read_arguments(struct arguments *a, int argc, char **argv)
{
    static const struct option known[] = {{"seed", required_argument, NULL, 's'},
                                          {"seconds", required_argument, NULL, 'n'},
                                          {"processes", required_argument, NULL, 'p'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"red", no_argument, NULL, 'r'},
                                          {"no-watchdog", no_argument, NULL, 'w'},
                                          {"forget", no_argument, NULL, 'f'},
                                          {"expect-two-holders", no_argument, NULL, 'e'},
                                          {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (c) {
        case 's':
            a->seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            a->seconds = strtoull(optarg, NULL, 10);
            break;
        case 'p':
            a->n_processes = atoi(optarg);
            break;
        case 't':
            a->n_threads = atoi(optarg);
            break;
        case 'r':
            a->red = true;
            break;
        case 'f':
            a->forgets = true;
            break;
        case 'w':
            a->no_watchdog = true;
            break;
        case 'e':
            a->expects_two_holders = true;
            break;
        default:
            usage(argv[0]);
        }
    }
    if (optind < argc || a->seconds == 0 || a->n_processes < 1 || a->n_threads < 1 ||
        (a->forgets && !a->red) || a->n_processes > SCHEDULE_MAX_SLOTS ||
        a->n_threads > WORKER_MAX_THREADS)
        usage(argv[0]);
}

static void play_forgetting(struct stage *stage)
{
    uint64_t next_ns = history_now_ns() + FORGET_MS * NS_PER_MS;

    for (; history_now_ns() < stage->until_ns; let_pass(5)) {
        stage_step(stage, false);
        if (history_now_ns() < next_ns)
            continue;
        stage_forget(stage);
        next_ns = history_now_ns() + FORGET_MS * NS_PER_MS;
    }
}

static void play(struct stage *stage, struct schedule *schedule)
{
    uint64_t began_ns = history_now_ns();
    struct fault fault = schedule_next(schedule);

    while (history_now_ns() < stage->until_ns) {
        while (history_now_ns() >= began_ns + fault.at_ms * NS_PER_MS) {
            stage_break(stage, &fault);
            fault = schedule_next(schedule);
        }
        stage_step(stage, false);
        let_pass(5);
    }
    stage_step(stage, true);
}

/* Whether each kind was held; with several servers, red locks. */
static bool print_holds(const struct check_report *report, bool red)
{
    int first = red ? HISTORY_RED : HISTORY_REENTRANT, last = red ? HISTORY_RED : HISTORY_READ;
    bool are_all = true;

    printf("holds:");
    for (int i = first; i <= last; i++) {
        printf("%s %zu %s", i > first ? "," : "", report->n_taken[i],
               history_sort_name((enum history_sort)i));
        are_all = are_all && report->n_taken[i] > 0;
    }
    printf("\n");
    return are_all;
}

static bool judge(const struct stage *stage, const struct arguments *arguments)
{
    struct check_limits limits = {.recheck_ms = WORKER_RECHECK_MS,
                                  .spin_pause_ms = SPIN_PAUSE_MS,
                                  .patience_ms = PATIENCE_MS,
                                  .round_trip_ms = slow_ms(ROUND_TRIP_MS),
                                  .recovery_ms = slow_ms(RECOVERY_MS)};
    struct history_records records = {0};
    struct check_report report;
    bool are_all;

    history_read(&records, stage->dir);
    check(&records, &limits, stdout, &report);
    are_all = print_holds(&report, arguments->red);
    printf(
        "%zu records of %zu processes: %zu attempts, %zu claims, %zu lost, %zu calls that failed, "
        "%zu pairs of waiters in order, locks free for %llu ms\n",
        records.n, stage->n_lives, report.n_asked, report.n_claims, report.n_lost, report.n_failed,
        report.n_ordered, (unsigned long long)report.free_ns / NS_PER_MS);
    history_free(&records);

    if (stage->failed || report.n_claims == 0 || report.free_ns == 0)
        return false;
    if (arguments->expects_two_holders)
        return report.n_violations[CHECK_TWO_HOLDERS] > 0;
    return are_all && check_n_violations(&report) == 0;
}

static void remove_files(const char *dir)
{
    char command[256];

    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0)
        fprintf(stderr, "%s is left behind\n", dir);
}

static void print_faults(const struct stage *stage)
{
    for (int i = 0; i < FAULT_N_KINDS; i++)
        printf("%s%zu x %s", i > 0 ? ", " : "", stage->n_faults[i], fault_name(i));
    printf("\n");
}

static bool run(const struct arguments *arguments, const char *dir)
{
    int n_servers = arguments->red ? RED_SERVERS : 1;
    struct stage stage = {.dir = dir,
                          .n_servers = n_servers,
                          .n_workers = arguments->n_processes,
                          .n_threads = arguments->n_threads,
                          .seed = arguments->seed,
                          .lease_ms = slow_ms(LEASE_MS),
                          .ignores_leases = arguments->no_watchdog,
                          .for_ms = arguments->seconds * 1000};
    struct schedule schedule = {.seed = arguments->seed,
                                .n_slots = arguments->n_processes,
                                .n_servers = n_servers,
                                .lease_ms = slow_ms(LEASE_MS),
                                .storm_ms = slow_ms(STORM_MS),
                                .calm_ms = slow_ms(CALM_MS)};

    if (!stage_open(&stage)) {
        printf("no redis-server and no valkey-server: skipped\n");
        remove_files(dir);
        exit(SERVER_EXIT_SKIP);
    }
    if (arguments->forgets)
        play_forgetting(&stage);
    else
        play(&stage, &schedule);
    stage_finish(&stage);
    stage_close(&stage);
    print_faults(&stage);
    return judge(&stage, arguments);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {
        .seed = (uint64_t)time(NULL), .seconds = 60, .n_processes = 4, .n_threads = 5};
    const char *tmp = getenv("TMPDIR");
    char dir[128];

    if (argc > 1 && strcmp(argv[1], WORKER_ARGUMENT) == 0)
        return worker_main(argc, argv);
    read_arguments(&arguments, argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %llu, %llu s\n", (unsigned long long)arguments.seed,
           (unsigned long long)arguments.seconds);

    snprintf(dir, sizeof(dir), "%.80s/relock-chaos-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        perror(dir);
        return EXIT_FAILURE;
    }
    if (run(&arguments, dir)) {
        remove_files(dir);
        return EXIT_SUCCESS;
    }
    printf("FAILED with seed %llu; histories and logs are in %s\n",
           (unsigned long long)arguments.seed, dir);
    return EXIT_FAILURE;
}
