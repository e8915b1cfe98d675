/*
 * Chaos: several processes acquire locks of all kinds while a schedule breaks servers, networks and
 * processes. A checker reads the histories that they wrote.
 *
 *     relock-chaos [--seed N] [--seconds S] [--processes P] [--threads T] [--red]
 *                  [--hot] [--keep] [--tls] [--cluster] [--plain] [--sentinel] [--min-replicas N]
 *                  [--no-watchdog] [--forget] [--silent] [--expect-two-holders]
 *                  [--expect-sleepers]
 *
 * Prints the seed first. The same seed gives the same schedule; the threads' behaviour depends on
 * the machine. If a kind of lock was never held, or an expected failure has not come, it runs again
 * with the next seed, twice at most. Ends with 0 if the histories are possible for a lock; with 1
 * and their folder if not; with 77 if there is no server. With --no-watchdog the workers take short
 * leases and ignore their ends: the checker must find that, and --expect-two-holders makes it a
 * success.
 *
 * With --red the locks are red locks on five servers, of which a minority is broken at a time. With
 * --forget no server breaks, but a majority loses all data at once, repeatedly while a lock is
 * held: the checker must find that, too, because a quorum cannot survive it.
 *
 * With one server, each thread also has numbers of its own, latches and unleased semaphores, and
 * the checker compares what they are at the end with what the commands have returned: each has run
 * once, or not at all, as its result says. With several servers, a failover may lose changes.
 *
 * With --keep clients keep locks that nobody uses (`keep_ms`), and others recall them.
 *
 * With --tls the workers connect with TLS, without proxies: servers and processes are broken, and
 * no network. It goes with --sentinel and with --cluster, too.
 *
 * With --sentinel there are a master, two replicas and three sentinels, and one master after the
 * other ends: see failover.h. Two may hold a lock at once only if the promoted replica had not
 * acknowledged the first hold, which --min-replicas 1 [the default] makes rare; the run prints how
 * many there were. With --min-replicas 0 each master is cut off, and --expect-two-holders makes it
 * a success that the checker finds such pairs.
 *
 * With --cluster the locks are in a cluster, whose slots move and whose masters fail and hand over,
 * and the network of one node at a time is broken. Each hold has a replica. A master stops writing
 * before it fails, because Redis could lose renewals otherwise. With --plain the clients do not use
 * sharded channels.
 *
 * With --hot fifty processes want two locks all the time, and the faults hit single processes
 * among them, often the first in line: a waiter must not depend on its own retries, whatever
 * happens to others. Beside the histories, the file "lines" shows who stood in line while a lock
 * stayed free; the log of each process begins with the id in its entry. With --silent nothing is
 * broken, but the server refuses to publish: the checker must find the sleepers, and
 * --expect-sleepers makes it a success. With --cluster the slots of these locks move, which
 * excuses nobody at the reentrant one, and their masters are killed, stopped and replaced.
 */
#include "arguments.h"
#include "check.h"
#include "rush.h"
#include "stage.h"
#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS 1000000
#define LEASE_MS 2500
#define SENTINEL_LEASE_MS 8000 /* outlasts a failover, see failover.c */
#define LONGEST_GAP_MS FAILOVER_MS
#define MEET_MS 2000 /* so long the other processes lock at the new master */
#define STORM_MS 8000
#define KEEP_MS 1000
#define CALM_MS 10000
#define HOT_CALM_MS 4000
#define SPIN_PAUSE_MS 128
#define PATIENCE_MS (3 * WORKER_RECHECK_MS)
#define RECOVERY_MS 2000
#define RED_SERVERS 5
#define FORGET_MS 100
#define MAX_RUNS 3 /* until one shows what is left to chance */

/* The longest round trip while nothing is broken. At hot locks a sleeper may take two of these and
 * no longer. With two such runs at a time, or one beside six endless loops, the longest sleep on
 * two cores was mostly below 0.25 s, and once 0.4 s. */
#define ROUND_TRIP_MS 1000
#define HOT_ROUND_TRIP_MS 500

/* How long a process that stands still, and is first in line, may delay the others. */
#define HOT_STOPPED_MS 200

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

static void play_silence(struct stage *stage)
{
    for (; history_now_ns() < stage->until_ns; let_pass(5))
        stage_step(stage, false);
    stage_let_publish(stage);
}

/* All processes but one stand still during each failover, and believe in their holds afterwards. */
static void play_failovers(struct stage *stage)
{
    struct fault stop = {.kind = FAULT_STOP, .for_ms = 2 * FAILOVER_MS};

    while (history_now_ns() < stage->until_ns) {
        failover_prepare(&stage->failover);
        for (stop.slot = 0; stop.slot < stage->n_workers - 1; stop.slot++)
            stage_break(stage, &stop);
        failover_happen(&stage->failover);
        let_pass(slow_ms(MEET_MS));
        stage_step(stage, true);
        failover_mend(&stage->failover);
    }
}

static bool is_due(const struct fault *fault, uint64_t began_ns)
{
    return history_now_ns() >= began_ns + fault->at_ms * NS_PER_MS;
}

/* In a cluster a fault may take seconds. Those that should have begun meanwhile are left out. */
static void play(struct stage *stage, struct schedule *schedule)
{
    uint64_t began_ns = history_now_ns();
    struct fault fault = schedule_next(schedule);

    while (history_now_ns() < stage->until_ns) {
        while (is_due(&fault, began_ns)) {
            stage_break(stage, &fault);
            do
                fault = schedule_next(schedule);
            while (stage->is_cluster && is_due(&fault, began_ns));
        }
        stage_step(stage, false);
        let_pass(5);
    }
    stage_step(stage, true);
}

static bool has_sort(const struct names *names, enum history_sort sort)
{
    for (int i = 0; i < names->n; i++)
        if (names->sorts[i] == (sort == HISTORY_READ ? HISTORY_WRITE : sort))
            return true;
    return false;
}

/* Whether each kind of lock was held. */
static bool print_holds(const struct check_report *report, const struct names *names)
{
    const char *before = "holds: ";
    bool are_all = true;

    for (int i = 0; i < HISTORY_N_SORTS; i++) {
        if (!has_sort(names, (enum history_sort)i))
            continue;
        printf("%s%zu %s", before, report->n_taken[i], history_sort_name((enum history_sort)i));
        before = ", ";
        are_all = are_all && report->n_taken[i] > 0;
    }
    printf("\n");
    return are_all;
}

static void print_report(const struct check_report *report, size_t n_records, size_t n_lives)
{
    printf(
        "%zu records of %zu processes: %zu attempts, %zu claims, %zu lost, %zu calls that failed, "
        "%zu pairs of waiters in order, %zu numbers, locks free for %llu ms\n",
        n_records, n_lives, report->n_asked, report->n_claims, report->n_lost, report->n_failed,
        report->n_ordered, report->n_numbers, (unsigned long long)report->free_ns / NS_PER_MS);
    printf("longest sleep at a free lock: %llu ms, and %llu ms while another process stood still\n",
           (unsigned long long)report->slept_ns[0] / NS_PER_MS,
           (unsigned long long)report->slept_ns[1] / NS_PER_MS);
}

/* Whether each double holder has the one reason that is allowed. */
static bool judge_failovers(const struct check_report *report)
{
    printf("double holders: %zu although the promoted replica had acknowledged the first hold, %zu "
           "because it had not; longest time without a grant: %llu ms\n",
           report->n_violations[CHECK_TWO_HOLDERS], report->n_doubles_after_loss,
           (unsigned long long)report->gap_ns / NS_PER_MS);
    return check_n_violations(report) == 0 && report->gap_ns <= slow_ms(LONGEST_GAP_MS) * NS_PER_MS;
}

static struct check_limits limits_of(const struct arguments *arguments)
{
    struct check_limits limits = {.recheck_ms = WORKER_RECHECK_MS,
                                  .spin_pause_ms = SPIN_PAUSE_MS,
                                  .patience_ms = PATIENCE_MS,
                                  .round_trip_ms = slow_ms(ROUND_TRIP_MS),
                                  .recovery_ms = slow_ms(RECOVERY_MS)};

    if (arguments->set == NAMES_HOT) {
        limits.recheck_ms = 0;
        limits.stopped_ms = HOT_STOPPED_MS;
        limits.round_trip_ms = slow_ms(HOT_ROUND_TRIP_MS);
    }
    return limits;
}

/* UNTRIED: what is left to chance has not happened, and nothing is wrong. A kind of lock was never
 * held, or no lock failed as it was to fail. */
enum verdict { RIGHT, WRONG, UNTRIED };

static enum verdict verdict_of(bool is_right, bool are_all)
{
    if (!is_right)
        return WRONG;
    return are_all ? RIGHT : UNTRIED;
}

static enum verdict judge(const struct stage *stage, const struct arguments *arguments)
{
    struct check_limits limits = limits_of(arguments);
    struct history_records records = {0};
    struct check_report report;
    bool are_all;

    history_read(&records, stage->dir);
    check(&records, &limits, stdout, &report);
    are_all = print_holds(&report, &stage->names);
    print_report(&report, records.n, stage->n_lives);
    history_free(&records);

    if (stage->failed)
        printf("a process failed, see stderr: that may explain the rest\n");
    if (stage->failed || report.n_claims == 0)
        return WRONG;
    if (arguments->set == NAMES_EVEN)
        return verdict_of(judge_failovers(&report), arguments->expects_two_holders
                                                        ? report.n_doubles_after_loss > 0
                                                        : are_all);
    if (report.free_ns == 0)
        return WRONG;
    if (arguments->expects_two_holders)
        return verdict_of(true, report.n_violations[CHECK_TWO_HOLDERS] > 0);
    if (arguments->expects_sleepers)
        return verdict_of(true, report.n_violations[CHECK_SLEPT] > 0);
    return verdict_of(check_n_violations(&report) == 0, are_all);
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
    printf("faults:");
    for (int i = 0; i < FAULT_N_KINDS; i++)
        if (stage->n_faults[i] > 0)
            printf(" %zu x %s;", stage->n_faults[i], fault_name(i));
    if (stage->n_aimed > 0)
        printf(" %zu of them hit the first in line", stage->n_aimed);
    printf("\n");
}

/* Those with sentinels are not of the stage. */
static int n_servers_of(const struct arguments *arguments)
{
    if (arguments->set == NAMES_EVEN)
        return 0;
    return arguments->set == NAMES_RED ? RED_SERVERS : 1;
}

static uint64_t lease_ms_of(const struct arguments *arguments)
{
    if (arguments->set == NAMES_HOT)
        return rush_cycle_ms();
    return slow_ms(arguments->set == NAMES_EVEN ? SENTINEL_LEASE_MS : LEASE_MS);
}

static struct stage stage_of(const struct arguments *arguments, const char *dir)
{
    return (struct stage){.dir = dir,
                          .n_servers = n_servers_of(arguments),
                          .n_workers = arguments->n_processes,
                          .n_threads = arguments->n_threads,
                          .set = (enum names_set)arguments->set,
                          .seed = arguments->seed,
                          .lease_ms = lease_ms_of(arguments),
                          .min_replicas = (unsigned)arguments->min_replicas,
                          .failover.n_rounds = arguments->seed % FAILOVER_N_ENDS * 2,
                          .failover.only_cut_off = arguments->min_replicas == 0,
                          .keep_ms = arguments->keeps ? KEEP_MS : 0,
                          .has_numbers = arguments->set == NAMES_MIXED && !arguments->is_cluster,
                          .ignores_leases = arguments->no_watchdog,
                          .has_tls = arguments->has_tls,
                          .is_cluster = arguments->is_cluster,
                          .is_plain = arguments->is_plain,
                          .is_silent = arguments->is_silent,
                          .for_ms = arguments->seconds * 1000};
}

static struct schedule schedule_of(const struct stage *stage)
{
    bool is_hot = stage->set == NAMES_HOT;

    return (struct schedule){.seed = stage->seed,
                             .n_slots = stage->n_workers,
                             .n_servers = stage->n_servers,
                             .is_hot = is_hot,
                             .is_cluster = stage->is_cluster,
                             .no_networks = stage->has_tls,
                             .lease_ms = slow_ms(LEASE_MS),
                             .storm_ms = slow_ms(STORM_MS),
                             .calm_ms = slow_ms(is_hot ? HOT_CALM_MS : CALM_MS)};
}

static enum verdict run(const struct arguments *arguments, const char *dir)
{
    struct stage stage = stage_of(arguments, dir);
    struct schedule schedule = schedule_of(&stage);

    if (!stage_open(&stage)) {
        printf("no redis-server and no valkey-server, or none with TLS: skipped\n");
        remove_files(dir);
        exit(SERVER_EXIT_SKIP);
    }
    if (arguments->set == NAMES_EVEN)
        play_failovers(&stage);
    else if (arguments->forgets)
        play_forgetting(&stage);
    else if (arguments->is_silent)
        play_silence(&stage);
    else
        play(&stage, &schedule);
    stage_finish(&stage);
    stage_close(&stage);
    print_faults(&stage);
    if (arguments->set == NAMES_EVEN)
        failover_print(&stage.failover);
    return judge(&stage, arguments);
}

static void make_folder(char dir[128])
{
    const char *tmp = getenv("TMPDIR");

    snprintf(dir, 128, "%.80s/relock-chaos-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        perror(dir);
        exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.seed = (uint64_t)time(NULL), .seconds = 60, .min_replicas = -1};
    enum verdict verdict = UNTRIED;
    char dir[128];

    if (argc > 1 && strcmp(argv[1], WORKER_ARGUMENT) == 0)
        return worker_main(argc, argv);
    arguments_read(&arguments, argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < MAX_RUNS && verdict == UNTRIED; i++) {
        arguments.seed += i > 0;
        printf("seed %llu, %llu s\n", (unsigned long long)arguments.seed,
               (unsigned long long)arguments.seconds);
        make_folder(dir);
        verdict = run(&arguments, dir);
        if (verdict != WRONG)
            remove_files(dir);
    }
    if (verdict == RIGHT)
        return EXIT_SUCCESS;
    if (verdict == UNTRIED)
        printf("FAILED: in no run all kinds of locks were held and the expected failure came\n");
    else
        printf("FAILED with seed %llu; histories and logs are in %s\n",
               (unsigned long long)arguments.seed, dir);
    return EXIT_FAILURE;
}
